"""What is held of memories in memory: within a limit, and always what the file says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage import memory_outbox
from perdure.storage.hot_memories import HotMemories
from perdure.storage.memory_index_records import INDEX_KINDS
from perdure.storage.memory_keys import AgentId, Visibility
from perdure.storage.memory_store import MemoryStore
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import AGENT, EVERYTHING, a_write, current, open_memories, version, write

AGENTS = [AgentId(f"agent {number}") for number in range(4)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


def limited(store: MemoryStore, limit_bytes: int) -> HotMemories:
    """Other hot memories of the store's file, in place of its own."""
    store.hot = HotMemories(store.readers().database, limit_bytes)
    return store.hot


def values(store: MemoryStore, agent: AgentId) -> list[str]:
    everything = Visibility.of_agent(agent)
    rows = [touch.row_id for touch in store.hot.touches(everything)]
    return sorted(memory.value for memory in store.hot.by_rows(everything, rows).values())


def test_an_agent_is_read_in_when_it_is_first_asked_for_and_then_follows_every_write(store: MemoryStore) -> None:
    write(store, a_write(1))
    hot = limited(store, 10**6)
    assert not hot.holds(AGENT)
    assert current(store).value == "blue"
    assert hot.holds(AGENT)
    one = hot.held_bytes
    write(store, a_write(2, value="green"), a_write(3, "food", "rice"))
    assert (current(store).value, current(store, "food").value) == ("green", "rice")
    assert one < hot.held_bytes < 3 * one
    for key in ("color", "food"):
        store.forget(agent_id=AGENT, scope=a_write(1).scope, key=key, at=at(9))
    assert (list(hot.touches(EVERYTHING)), hot.held_bytes) == ([], 0)


def test_beyond_the_limit_the_agents_longest_unused_go_and_come_again(store: MemoryStore) -> None:
    for number, agent in enumerate(AGENTS):
        write(store, a_write(number + 1, agent_id=agent, value=f"v{number}"))
    hot = limited(store, 5_500)  # two memories
    for agent in (*AGENTS, AGENTS[0], AGENTS[3]):
        assert values(store, agent) == [f"v{AGENTS.index(agent)}"]
        assert hot.held_bytes <= 5_500
    assert [hot.holds(agent) for agent in AGENTS] == [True, False, False, True]


def test_an_agent_over_the_limit_is_answered_from_the_file_until_it_has_room(store: MemoryStore) -> None:
    hot = limited(store, 10_000)
    write(store, a_write(1, "a"), a_write(2, "b", "x" * 20_000))
    assert not hot.holds(AGENT)
    assert len(current(store, "b").value) == 20_000
    [result] = write(store, a_write(3, "a", "green", supersedes=(version(2),)))
    assert result.superseded == (version(1), version(2))
    assert values(store, AGENT) == ["green"]
    assert hot.holds(AGENT)


def test_an_agent_that_grows_over_the_limit_is_let_go(store: MemoryStore) -> None:
    hot = limited(store, 6_000)
    write(store, a_write(1, "a"))
    assert hot.holds(AGENT)
    write(store, *(a_write(number, f"k{number}") for number in range(2, 9)))
    assert not hot.holds(AGENT)
    assert len(values(store, AGENT)) == 8


def test_many_threads_may_ask_while_one_writes_and_never_see_two_values_of_a_key_or_none(store: MemoryStore) -> None:
    write(store, a_write(1), a_write(2, agent_id=AGENTS[0]))
    hot = limited(store, 4_000)  # one agent: the two push each other out
    faults: list[str] = []
    is_over = threading.Event()

    def ask(agent: AgentId) -> None:
        everything = Visibility.of_agent(agent)
        newest = 0
        while not is_over.wait(0.001):
            memory = hot.current(everything, "color")
            if memory is None or memory.version < newest or len(hot.touches(everything)) != 1:
                faults.append(f"{memory} after version {newest}")
                return
            newest = memory.version

    threads = [threading.Thread(target=ask, args=(agent,)) for agent in (AGENT, AGENTS[0], AGENT)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3, 30):
            write(store, a_write(number, value=f"v{number}"), a_write(number + 100, value="x", agent_id=AGENTS[0]))
    finally:
        is_over.set()
        for thread in threads:
            thread.join(30)
    assert faults == []
    assert current(store).version == 28


def test_what_the_indexes_were_not_told_of_is_known_without_the_file_as_far_back_as_it_is_remembered(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_outbox, "MOST_RECENT", 12)
    for number in range(1, 11):
        write(store, a_write(number, f"k{number % 4}", value=f"v{number}"))
    store.forget(agent_id=AGENT, scope=a_write(1).scope, key="k1", at=at(99))
    outbox = store.readers().outbox
    for kind in INDEX_KINDS:
        for after in range(-1, store.committed_seq + 1):
            recent = store.recent_changes(kind, after, 5)
            if after < store.committed_seq - 12:
                assert recent is None
            else:
                assert recent == outbox.pending(kind, after, 5)
    store.hot = HotMemories(store.readers().database, 10**6)  # the agent has to be read in, which takes its time
    assert store.recent_changes("vector", store.committed_seq - 4, 5) is None
