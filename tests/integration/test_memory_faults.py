"""Memory when something is wrong with its file, its indexes, its embedder or its callers."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from perdure.actors.host_address import wait_until_unserved
from perdure.actors.placement import index_actor, memory_actor
from perdure.actors.testing import CallTools, Rule, Say, Script
from perdure.storage.errors import DataDirectoryError, DiskFullError, FileCorruptError, FileTooNewError, PerdureError
from perdure.storage.layout import index_path, memory_path

REMEMBER = CallTools((("remember", {"key": "pet", "value": "Ana has a parrot"}),))
SCRIPT = Script((Rule("pet", (REMEMBER, Say("{result}"))), Rule(None, (Say("ok"),))))
ODD_CONTACTS = (
    'o\'brien "the/one"',
    "o'brien",
    "' OR 1=1 --",
    "a/b:c",
    "a:b/c",
    "a%3Ab/c",
    "%",
    "\\",
    "memory:contact:o'brien",
    "🦜\n\t{input}",
)


def kill(actor: Any) -> None:
    import ray

    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)


@contextmanager
def other_file_of_memories(runtime):
    """While it lasts, the file of memories is another one, to be made by the test, and nobody has it open."""
    kill(memory_actor(runtime.place))
    path = memory_path(runtime.place.data_dir)
    files = [path, Path(f"{path}.wal")]
    away = [(file, file.with_name(f"kept-{file.name}")) for file in files if file.exists()]
    for file, kept in away:
        file.rename(kept)
    try:
        yield path
    finally:
        for file in files:
            if file.is_dir():
                file.rmdir()
            file.unlink(missing_ok=True)
        for file, kept in away:
            kept.rename(file)


def values(recalled) -> list[str]:
    return [hit.memory.value for hit in recalled.hits if not hit.is_filled]


def channels(recalled, value) -> set[str]:
    return {place.channel for hit in recalled.hits if hit.memory.value == value for place in hit.ranks}


def corrupt(path: Path) -> None:
    path.write_bytes(b"nonsense" * 1000)


def from_the_future(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE VIEW schema_migrations AS SELECT * FROM (VALUES (1, '0001_memory.sql'), (2, '0002_later.sql'),"
            " (3, '0003_later.sql'), (4, '0004_later.sql'), (5, '0005_later.sql')) AS kept (version, name)"
        )


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [(corrupt, FileCorruptError), (from_the_future, FileTooNewError), (a_folder, DataDirectoryError)],
)
def test_a_file_that_cannot_be_used_is_named_conversations_go_on_and_once_repaired_memory_is_back(
    runtime, name, spoil, error
):
    agent = runtime.agent(name, model=SCRIPT)
    agent.memories.remember("pet", "Ana has a cat")
    with other_file_of_memories(runtime) as path:
        spoil(path)
        before = path.read_bytes() if path.is_file() else None
        for call in (
            lambda: agent.memories.remember("pet", "Ana has a dog"),
            lambda: agent.memories.fused_recall("Ana's pet"),
            lambda: agent.memories.recall("pet"),
        ):
            with pytest.raises(error) as raised:
                call()
            assert raised.value.path == str(path)
        chat = agent.conversation("c")
        assert chat.send("hello").text == "ok"
        assert str(path) in chat.send("pet").text  # the model's tool is told, too
        assert chat.context("hello").part("memories").messages == ()
        if before is not None:
            assert path.read_bytes() == before
    assert [memory.value for memory in agent.memories.recall("pet")] == ["Ana has a cat"]
    assert agent.conversation("c").send("pet once more").text.startswith("Remembered")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write every file")
def test_a_file_that_may_not_be_written_is_named(runtime, name):
    memories = runtime.agent(name).memories
    memories.remember("pet", "Ana has a cat")
    path = memory_path(runtime.place.data_dir)
    kill(memory_actor(runtime.place))
    path.chmod(0o400)
    try:
        with pytest.raises(DataDirectoryError, match="permission") as raised:
            memories.recall("pet")
        assert raised.value.path == str(path)
    finally:
        path.chmod(0o600)
    assert len(memories.recall("pet")) == 1


def test_writers_of_one_key_leave_one_current_value_and_every_other_one_in_its_history(runtime, name):
    agent = runtime.agent(name)
    started = threading.Barrier(4)

    def write(who: int) -> None:
        started.wait()
        for number in range(8):
            agent.memories.remember("score", f"Player {who} has {number} points", write_id=f"{who}-{number}")

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    versions = agent.memories.history("score")
    assert [version.version for version in versions] == list(range(1, 33))
    assert len({version.value for version in versions}) == 32
    [now] = [version for version in versions if version.is_active]
    assert now.value.endswith("7 points")
    assert [memory.value for memory in agent.memories.recall("score")] == [now.value]
    assert values(agent.memories.fused_recall("points of the player, the score", 40)) == [now.value]


def test_contacts_of_any_name_have_memories_of_their_own_and_every_channel_finds_them(runtime, name):
    agent = runtime.agent(name, model=SCRIPT)
    for number, contact in enumerate(ODD_CONTACTS):
        agent.memories_of(contact).remember("favourite.bird", f"The favourite bird is number {number}")
    for number, contact in enumerate(ODD_CONTACTS):
        mine = agent.memories_of(contact)
        expected = f"The favourite bird is number {number}"
        recalled = mine.fused_recall("favourite bird", fill=False)
        assert values(recalled) == [expected], contact
        assert channels(recalled, expected) == {"vector", "keyword", "exact_key"}, contact
        assert recalled.unanswered == {}
        assert [memory.value for memory in mine.list()] == [expected]
        [memory] = mine.recall("favourite.bird")
        assert memory.scope.contact_id == contact
    first, second = ODD_CONTACTS[:2]
    told = agent.conversation("told", contact=first)
    assert told.send("pet").text.startswith("Remembered")
    assert values(agent.memories_of(second).fused_recall("Ana's parrot, her pet")) != ["Ana has a parrot"]
    assert agent.memories_of(second).recall("pet") == []
    assert agent.memories_of(first).forget("favourite.bird") is not None
    assert [memory.value for memory in agent.memories_of(first).list()] == ["Ana has a parrot"]
    assert len(agent.memories_of(second).list()) == 1


def remove_indexes(runtime):
    """Delete the folder of all indexes, though their processes may be writing files into it."""
    limit = time.monotonic() + 30
    while (folder := index_path(runtime.place.data_dir)).exists():
        assert time.monotonic() < limit
        shutil.rmtree(folder, ignore_errors=True)


def test_indexes_that_are_deleted_while_they_run_fail_no_write_and_are_made_anew_by_reindex(runtime, name):
    memories = runtime.agent(name).memories
    memories.remember("boat", "The boat lies in the northern harbour")
    remove_indexes(runtime)
    done = memories.remember("mast", "The mast of the boat is broken")
    assert done.outcome == "created"
    assert [memory.value for memory in memories.recall("mast")] == ["The mast of the boat is broken"]
    for kind in ("vector", "keyword"):
        runtime.memory_call("reindex", kind, timeout_s=120)
    recalled = memories.fused_recall("boat in the harbour", fill=False)
    assert recalled.unanswered == {}
    assert channels(recalled, "The boat lies in the northern harbour") == {"vector", "keyword", "exact_key"}


def test_indexes_that_are_deleted_while_nothing_runs_are_repaired(runtime, name):
    memories = runtime.agent(name).memories
    memories.remember("boat", "The boat lies in the northern harbour")
    limit = time.monotonic() + 60
    while memories.fused_recall("boat", fill=False).unanswered:  # what an earlier test deleted is being put back
        assert time.monotonic() < limit
        time.sleep(0.2)
    while any(runtime.memory_call("counts", timeout_s=60).pending.values()):
        assert time.monotonic() < limit
        time.sleep(0.2)
    for actor in (
        memory_actor(runtime.place),
        index_actor(runtime.place, "vector"),
        index_actor(runtime.place, "keyword"),
    ):
        kill(actor)
    shutil.rmtree(index_path(runtime.place.data_dir))
    assert [memory.value for memory in memories.recall("boat")] == ["The boat lies in the northern harbour"]
    runtime.memory_call("differences", True, timeout_s=120)
    recalled = memories.fused_recall("boat in the harbour", fill=False)
    assert channels(recalled, "The boat lies in the northern harbour") == {"vector", "keyword", "exact_key"}


def test_a_write_that_the_disk_refuses_harms_none_beside_it_and_all_may_be_repeated(runtime, name):
    import ray

    memories = runtime.agent(name).memories
    memories.remember("first", "The first page is white")
    pid = ray.get(memory_actor(runtime.place).pid.remote())
    wal_bytes = Path(f"{memory_path(runtime.place.data_dir)}.wal").stat().st_size
    met: list[PerdureError] = []
    text = "A page full of words " * 10

    def call(number: int) -> None:
        for turn in range(3):
            try:
                memories.remember(
                    f"page.{number}", f"{number}.{turn} {text}", write_id=f"{number}.{turn}", timeout_s=60
                )
                memories.history("first", timeout_s=60)
                memories.fused_recall("a white page", 5, timeout_s=60)
            except PerdureError as error:
                met.append(error)

    def call_all() -> None:
        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (wal_bytes + 4_000, before[1]))
    try:
        call_all()
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    assert {type(error) for error in met} == {DiskFullError}, met
    met.clear()
    call_all()
    assert met == []
    assert len(memories.list()) == 9


UNREACHABLE = """
    import json, sys, time
    from perdure.actors import connect
    settings = {
        "ray": {"temp_dir": sys.argv[2]},
        "embedding": {"model": "openai/x", "api_base": "http://127.0.0.1:9"},
        "models": {"max_retries": 1, "timeout_s": 5},
    }
    with connect(sys.argv[1], settings=settings) as runtime:
        agent = runtime.agent("a")
        told = []
        for key, value in (("boat", "The boat lies in the harbour"), ("boat", "The boat lies in the bay")):
            began = time.monotonic()
            done = agent.memories.remember(key, value)
            told.append([done.outcome, dict(done.not_yet_in), time.monotonic() - began])
        recalled = agent.memories.fused_recall("Where does the boat lie?", fill=False)
        chat = agent.conversation("c").send("Where does the boat lie?")
        print(json.dumps({
            "told": told,
            "found": [[hit.memory.value, [rank.channel for rank in hit.ranks]] for hit in recalled.hits],
            "unanswered": dict(recalled.unanswered),
            "reply": chat.text,
            "forgotten": agent.memories.forget("boat") is not None,
            "after": len(agent.memories.fused_recall("boat").hits),
        }))
    """


@pytest.mark.timeout(300)
def test_an_embedder_that_cannot_be_reached_fails_no_write_and_recall_goes_on_by_words_and_keys(tmp_path):
    ray_dir = tempfile.mkdtemp(prefix="pd-", dir="/tmp")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PERDURE_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(UNREACHABLE), str(tmp_path / "data"), ray_dir],
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, "OPENAI_API_KEY": "sk-nobody", "PERDURE_RAY__LINGER_S": "0.5"},
    )
    assert wait_until_unserved(tmp_path / "data" / "run")
    shutil.rmtree(ray_dir, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert [outcome for outcome, _, _ in answer["told"]] == ["created", "versioned"]
    assert all("vector" in lacking for _, lacking, _ in answer["told"])
    assert set(answer["told"][-1][1]) == {"vector"}  # by then the keyword index's process has started
    assert set(answer["unanswered"]) == {"vector"}
    assert answer["found"] == [["The boat lies in the bay", ["keyword", "exact_key"]]]
    assert "bay" in answer["reply"]
    assert (answer["forgotten"], answer["after"]) == (True, 0)
    assert "openai/x" in answer["unanswered"]["vector"]
