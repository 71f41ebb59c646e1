"""The same writes on an empty file give the same tables."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure.storage.conversation_store
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.directory_records import ConversationNote, JobRun
from perdure.storage.directory_store import DirectoryStore
from perdure.storage.errors import InvalidInputError
from perdure.storage.memory_store import MemoryStore
from perdure.storage.records import AgentName, ContactId, ConversationId
from perdure.storage.replay import WriteCall, replay, replayable, replayable_methods
from tests.fixtures.conversation_file import at, difference, open_store, stored_tables, view
from tests.fixtures.memories import file_of, open_memories
from tests.fixtures.random_memory_steps import RandomMemorySteps
from tests.fixtures.random_steps import RandomSteps

STORAGE = Path(perdure.storage.conversation_store.__file__).parent


class Recorder:
    """Stands before a store and keeps the calls that write."""

    def __init__(self, store: object) -> None:
        self._store = store
        self._writing = replayable_methods(type(store))
        self.calls: list[WriteCall] = []

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._store, name)
        if name not in self._writing:
            return member

        def recorded(**arguments: Any) -> Any:
            self.calls.append(WriteCall(name, arguments))
            return member(**arguments)

        return recorded


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_replaying_a_long_random_run_gives_the_same_tables_row_for_row(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    original = open_store(folder / "original.duckdb")
    recorder = Recorder(original)
    for number, call in zip(range(250), RandomSteps(seed, longest_text=500), strict=False):
        getattr(recorder, call.method)(**call.arguments)
        if number % 60 == 59:
            original.tidy()
    assert {call.method for call in recorder.calls} == replayable_methods(ConversationStore)

    repeated = open_store(folder / "repeated.duckdb")
    replay(repeated, recorder.calls)

    assert stored_tables(repeated) == stored_tables(original)
    assert difference(view(repeated), view(original)) == []
    original.close()
    repeated.close()


def test_a_directory_replayed_gives_the_same_tables(tmp_path: Path) -> None:
    original = DirectoryStore.open(tmp_path / "original.duckdb")
    recorder = Recorder(original)
    for number in range(30):
        name = AgentName(f"agent {number % 7}")
        recorder.save_agent(name=name, agent_id=f"id {number}", options=f'{{"n": {number // 10}}}', at=at(number))
        recorder.register_conversation(
            agent=name,
            conversation_id=ConversationId(f"c{number % 11}"),
            contact=ContactId(f"p{number % 11}") if number % 11 % 2 else None,
            at=at(number),
        )
        activated = recorder.activate_conversation(
            agent=name,
            conversation_id=ConversationId(f"c{number % 11}"),
            contact=None,
            node=f"node {number % 2}",
            after=number % 4,
            at=at(number),
        )
        recorder.note_conversation(
            agent=name,
            conversation_id=ConversationId(f"c{number % 11}"),
            epoch=activated.epoch - number % 2,
            note=ConversationNote(
                messages=number,
                open_turns=number % 3,
                outbox_pending=number % 5,
                drained_kinds=("index",)[: number % 2],
            ),
            next_sweep_at=at(number + 60) if number % 3 else None,
            at=at(number),
        )
        recorder.mark_stored(
            agent=name, conversation_id=ConversationId(f"c{number % 11}"), contact=ContactId("p"), at=at(number)
        )
        if not number % 7:
            recorder.postpone_sweep(
                agent=name, conversation_id=ConversationId(f"c{number % 5}"), next_sweep_at=at(number + 99)
            )
        run = JobRun(run_id=f"r{number}", job="sweep", started_at=at(number), ended_at=at(number + 1), counts="{}")
        recorder.add_job_run(run=run)
    assert {call.method for call in recorder.calls} == replayable_methods(DirectoryStore)

    repeated = DirectoryStore.open(tmp_path / "repeated.duckdb")
    replay(repeated, recorder.calls)

    assert list(repeated.agents()) == list(original.agents())
    assert repeated.conversations(None, 100, 0) == original.conversations(None, 100, 0)
    assert any(record.epoch > 1 and record.has_file for record in repeated.conversations(None, 100, 0))
    assert repeated.contacts() == original.contacts()
    assert repeated.job_runs(None, 100) == original.job_runs(None, 100)
    original.close()
    repeated.close()


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_memories_replayed_give_the_same_tables(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("replay")
    original = open_memories(folder / "original.duckdb")
    recorder = Recorder(original)
    for _, call in zip(range(150), RandomMemorySteps(seed), strict=False):
        try:
            getattr(recorder, call.method)(**call.arguments)
        except InvalidInputError:
            recorder.calls.pop()
    drawn = {call.method for _, call in zip(range(2_000), RandomMemorySteps(seed), strict=False)}
    assert drawn == replayable_methods(MemoryStore)

    repeated = open_memories(folder / "repeated.duckdb", hot_mib=0)
    replay(repeated, recorder.calls)

    assert file_of(repeated) == file_of(original)
    original.close()
    repeated.close()


def test_only_marked_methods_count_as_writes() -> None:
    class Store:
        @replayable
        def write(self, *, at: int) -> None: ...

        def read(self) -> None: ...

    assert replayable_methods(Store) == {"write"}


@pytest.mark.parametrize("store", [ConversationStore, DirectoryStore, MemoryStore])
def test_every_replayable_method_takes_keyword_arguments_only(store: type) -> None:
    for name in replayable_methods(store):
        method: Callable[..., object] = getattr(store, name)
        code = method.__code__
        assert code.co_argcount == 1, name
        assert code.co_kwonlyargcount > 0, name


CLOCKS_AND_CHANCE = {"time", "random", "uuid", "secrets"}
CLOCK_CALLS = {"now", "utcnow", "today", "fromtimestamp", "urandom", "getrandom"}


def clocks_and_chance(source: str) -> list[str]:
    """What a module's text takes from a clock or from chance."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in CLOCKS_AND_CHANCE]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [node.module or ""] if (node.module or "").split(".")[0] in CLOCKS_AND_CHANCE else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found += [node.func.attr] if node.func.attr in CLOCK_CALLS else []
    return found


def test_the_search_for_clocks_and_chance_finds_them() -> None:
    for text in (
        "import time",
        "from uuid import uuid4",
        "import random as r",
        "datetime.now(UTC)",
        "os.urandom(4)",
    ):
        assert clocks_and_chance(text), text
    assert not clocks_and_chance("from datetime import datetime, time\nfrom .time import x\ndatetime(2024, 1, 1)")


@pytest.mark.parametrize("module", sorted(STORAGE.glob("**/*.py")), ids=lambda path: path.stem)
def test_no_module_of_storage_reads_a_clock_or_draws_at_random(module: Path) -> None:
    assert clocks_and_chance(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("script", sorted(STORAGE.glob("migrations/*/*.sql")), ids=lambda path: path.stem)
def test_no_migration_reads_a_clock_or_draws_at_random(script: Path) -> None:
    text = script.read_text(encoding="utf-8").lower()
    for word in ("now(", "current_timestamp", "current_date", "today(", "random(", "uuid(", "nextval"):
        assert word not in text


def test_a_moment_is_stored_the_same_whatever_zone_it_comes_in(tmp_path: Path) -> None:
    from zoneinfo import ZoneInfo

    stored = []
    for zone in ("UTC", "Asia/Kolkata", "America/Los_Angeles"):
        store = open_store(tmp_path / f"{zone.replace('/', '-')}.duckdb")
        calls = [call for _, call in zip(range(40), RandomSteps(7, longest_text=50), strict=False)]
        for call in calls:
            if "at" in call.arguments:
                call.arguments["at"] = call.arguments["at"].astimezone(ZoneInfo(zone)) + timedelta(0)
        replay(store, calls)
        stored.append(stored_tables(store))
        store.close()
    assert stored[0] == stored[1] == stored[2]
