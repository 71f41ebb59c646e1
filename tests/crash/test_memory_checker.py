"""The checker of memories finds each kind of broken promise, and none where all were kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from perdure.jobs.memory_questions import ShownMemory
from perdure.jobs.replacement import NOTHING, replacement
from perdure.storage.memory_keys import AGENT_WIDE, AgentId
from perdure.storage.memory_records import Memory, MemoryId, VersionId

from .memory_checker import StoredMemories, violations
from .memory_steps import Step, note_step, planned_steps, read_steps

AT = datetime(2026, 1, 1, tzinfo=UTC)
ID = MemoryId("00000000-0000-4000-8000-000000000001")


def a_version(version: int, value: str, *, is_active: bool) -> Memory:
    return Memory(
        row_id=version,
        memory_id=ID,
        version=version,
        agent_id=AgentId("a"),
        scope=AGENT_WIDE,
        key="k",
        value=value,
        fact_type="fact",
        kind="fact",
        source="remember",
        confidence=0.9,
        verification="not_needed",
        created_at=AT,
        updated_at=AT,
        valid_from=AT,
        superseded_at=None if is_active else AT,
    )


def a_step(number: int, value: str | None) -> Step:
    return Step(
        step_id=f"s{number}",
        action="forget" if value is None else "remember",
        contact=None,
        key="k",
        value=value,
        begun_at_ns=10 * number,
        acked_at_ns=10 * number + 5,
        version=None if value is None else VersionId(memory_id=ID, version=number),
    )


class World:
    """Two values under one key, the second in place of the first, to be spoiled by a test."""

    def __init__(self) -> None:
        self.steps = [a_step(1, "one"), a_step(2, "two")]
        self.versions = [a_version(1, "one", is_active=False), a_version(2, "two", is_active=True)]
        self.writes = {"s1": 1, "s2": 1}

    def found(self) -> list[str]:
        return [
            each.count for each in violations(self.steps, StoredMemories(versions=self.versions, writes=self.writes))
        ]

    def without_end(self, place: int) -> None:
        self.steps[place] = replace(self.steps[place], acked_at_ns=None, version=None)

    def forgotten(self) -> None:
        self.versions[1] = a_version(2, "two", is_active=False)


def test_where_all_was_kept_nothing_is_found() -> None:
    assert World().found() == []


def test_an_unacknowledged_step_may_have_happened_or_not() -> None:
    world = World()
    world.without_end(1)
    assert world.found() == []
    world.versions[1:] = []
    world.versions[0] = a_version(1, "one", is_active=True)
    assert world.found() == []


def test_an_acknowledged_forget_leaves_nothing_and_an_unacknowledged_one_may_leave_it() -> None:
    world = World()
    world.steps.append(a_step(3, None))
    assert world.found() == ["acked_memories_lost"]
    world.without_end(2)
    assert world.found() == []
    world.forgotten()
    assert world.found() == []


def test_of_two_steps_under_way_at_once_either_may_be_the_last() -> None:
    world = World()
    world.versions = [a_version(1, "one", is_active=True), a_version(2, "two", is_active=False)]
    assert world.found() == ["acked_memories_lost"]
    world.steps[0] = replace(world.steps[0], acked_at_ns=100)
    assert world.found() == []


def lose(world: World) -> None:
    del world.versions[0]


def lose_the_last(world: World) -> None:
    del world.versions[1]
    world.versions[0] = a_version(1, "one", is_active=True)


def forget_what_nobody_forgot(world: World) -> None:
    world.forgotten()


def store_twice(world: World) -> None:
    world.versions.insert(1, replace(world.versions[0], version=3))


def store_under_another_version(world: World) -> None:
    world.versions[0] = replace(world.versions[0], version=7)


def activate_two(world: World) -> None:
    world.versions[0] = a_version(1, "one", is_active=True)


def record_twice(world: World) -> None:
    world.writes["s1"] = 2


def invent(world: World) -> None:
    world.versions.insert(0, a_version(9, "nobody's", is_active=False))


@pytest.mark.parametrize(
    ("spoil", "count"),
    [
        (lose, "acked_memories_lost"),
        (lose_the_last, "acked_memories_lost"),
        (forget_what_nobody_forgot, "acked_memories_lost"),
        (store_under_another_version, "acked_memories_lost"),
        (store_twice, "duplicates"),
        (activate_two, "duplicates"),
        (record_twice, "duplicates"),
        (invent, "duplicates"),
    ],
)
def test_each_kind_of_broken_promise_is_found(spoil: Callable[[World], None], count: str) -> None:
    world = World()
    spoil(world)
    assert set(world.found()) == {count}


def test_a_journal_gives_each_step_as_it_was_noted_last(tmp_path: Path) -> None:
    done, begun = a_step(1, "one"), replace(a_step(2, None), acked_at_ns=None)
    for step in (replace(done, acked_at_ns=None, version=None), done, begun):
        note_step(tmp_path / "client.journal", step)
    assert read_steps([tmp_path / "client.journal", tmp_path / "none.journal"]) == [done, begun]


def test_a_plan_is_the_same_for_the_same_seed_and_no_two_values_have_to_do_with_each_other() -> None:
    planned = [step for client in range(3) for step in islice(planned_steps(1, client), 40)]
    assert planned == [step for client in range(3) for step in islice(planned_steps(1, client), 40)]
    written = [step for step in planned if step.value is not None]
    assert len({(step.contact, step.value) for step in written}) == len(written)
    shown = [ShownMemory(key=step.key, text=str(step.value), is_whole=True) for step in written]
    for earlier in shown:
        for later in shown:
            if earlier.key != later.key and earlier.text != later.text:
                assert replacement(earlier, later) == NOTHING
