"""What the indexes derived from memories are told, and the registry of what their vectors were made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.storage.errors import InvalidInputError
from perdure.storage.memory_index_records import Embedding, IndexKind
from perdure.storage.memory_input import content_hash
from perdure.storage.memory_keys import AGENT_WIDE, vector_id
from perdure.storage.memory_store import MemoryStore
from perdure.storage.outbox_records import OutboxCursor
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import (
    AGENT,
    ANA,
    EVERYTHING,
    a_write,
    file_of,
    memory_id,
    open_memories,
    version,
    write,
)

COLOR = vector_id(AGENT, AGENT_WIDE, "color")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


def pending(store: MemoryStore, kind: IndexKind = "vector", **asked: Any) -> list[tuple[str, str | None]]:
    """The pending changes: under which key, and the value that has to be there."""
    changes = store.readers().outbox.pending(kind, **asked)
    return [
        (change.vector_id.rsplit(":", 1)[-1], change.memory.value if change.memory is not None else None)
        for change in changes
    ]


def told(store: MemoryStore, kind: IndexKind = "vector") -> list[tuple[str, str | None]]:
    """The pending changes, which are acknowledged."""
    found = pending(store, kind)
    changes = store.readers().outbox.pending(kind)
    if changes:
        store.acknowledge(kind=kind, seq=changes[-1].seq)
    return found


def an_embedding(value: str = "blue", **changes: Any) -> Embedding:
    given: dict[str, Any] = {"vector_id": COLOR, "model": "bge", "dimensions": 384, **changes}
    return Embedding(content_hash=content_hash(value), chunk_count=1, embedded_at=at(9), **given)


def registered(store: MemoryStore) -> list[str]:
    return sorted(store.readers().scan.embeddings([COLOR, vector_id(AGENT, ANA, "color")]))


def test_both_indexes_are_told_of_facts_and_only_the_keyword_index_of_tasks(store: MemoryStore) -> None:
    write(store, a_write(1, "a"), a_write(2, "b", fact_type="task"), a_write(3, "c", fact_type="skill", scope=ANA))
    assert pending(store, "vector") == [("a", "blue"), ("c", "blue")]
    assert pending(store, "keyword") == [("a", "blue"), ("b", "blue"), ("c", "blue")]


def test_a_memory_that_becomes_a_task_loses_its_vector_and_its_registration_and_gets_them_again(
    store: MemoryStore,
) -> None:
    write(store, a_write(1))
    store.record_embeddings(embeddings=[an_embedding()])
    told(store), told(store, "keyword")
    store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), fact_type="task", at=at(2))
    assert (told(store, "vector"), told(store, "keyword")) == ([("color", None)], [("color", "blue")])
    assert registered(store) == []
    store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), value="green", at=at(3))
    assert (told(store, "vector"), told(store, "keyword")) == ([], [("color", "green")])
    store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), fact_type="event", at=at(4))
    assert told(store, "vector") == [("color", "green")]


def test_what_is_superseded_or_forgotten_has_to_go_from_both(store: MemoryStore) -> None:
    write(store, a_write(1, "a"), a_write(2, "b"), a_write(3, "c"))
    told(store), told(store, "keyword")
    write(store, a_write(4, "d", supersedes=(version(1),)))
    store.supersede(agent_id=AGENT, versions=[version(2)], by=version(4), reason="merged", at=at(5))
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="c", at=at(6))
    for kind in ("vector", "keyword"):
        assert sorted(told(store, kind), key=str) == [("a", None), ("b", None), ("c", None), ("d", "blue")]


def test_what_changes_nothing_that_is_indexed_tells_the_indexes_nothing(store: MemoryStore) -> None:
    write(store, a_write(1, verification="unverified", valid_from=at(1)))
    told(store)
    write(store, a_write(2), a_write(3, value="older", valid_from=at(-5)))
    store.set_verification(agent_id=AGENT, versions=[version(1)], verification="verified")
    assert pending(store) == []


def test_a_change_comes_with_what_is_true_when_it_is_read_however_late(store: MemoryStore) -> None:
    write(store, a_write(1))
    write(store, a_write(2, value="green"))
    assert pending(store) == [("color", "green"), ("color", "green")]
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="color", at=at(3))
    assert pending(store) == [("color", None)] * 3
    write(store, a_write(4, value="red"))
    assert pending(store) == [("color", "red")] * 4


def test_changes_come_in_parts_in_order_until_they_are_acknowledged(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, *(a_write(number, f"k{number}") for number in range(1, 6)))
    first = store.readers().outbox.pending("vector", limit=2)
    assert [change.memory.key for change in first] == ["k1", "k2"]
    assert pending(store, after=first[-1].seq, limit=2) == [("k3", "blue"), ("k4", "blue")]
    store.acknowledge(kind="vector", seq=first[-1].seq)
    store.acknowledge(kind="vector", seq=first[0].seq)
    assert pending(store) == [("k3", "blue"), ("k4", "blue"), ("k5", "blue")]
    assert len(pending(store, "keyword")) == 5
    store.acknowledge(kind="vector", seq=10**12)
    store.acknowledge(kind="keyword", seq=10**12)
    assert file_of(store)["memory_outbox"] == []
    store.close()
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(9, "late"))
    assert pending(store) == [("late", "blue")]
    store.close()


def test_a_change_that_an_index_cannot_take_is_parked_and_told_once_more_on_request(store: MemoryStore) -> None:
    write(store, a_write(1, "a"), a_write(2, "b"))
    reader = store.readers().outbox
    seq = reader.pending("vector")[0].seq
    store.fail(kind="vector")
    store.fail(kind="vector")
    assert reader.cursor("vector") == OutboxCursor(delivered_seq=-1, attempts=2)
    for _ in range(2):
        store.park(kind="vector", seq=seq, error="too long", at=at(5))
    assert reader.cursor("vector") == OutboxCursor(delivered_seq=seq)
    assert pending(store) == [("b", "blue")]
    [parked] = reader.parked()
    assert (parked.kind, parked.seq, parked.vector_id) == ("vector", seq, vector_id(AGENT, AGENT_WIDE, "a"))
    assert (parked.attempts, parked.error, parked.parked_at) == (2, "too long", at(5))
    write(store, a_write(3, "a", "new"))
    told(store)
    for _ in range(2):
        store.unpark(kind="vector", seq=seq, at=at(6))
    assert reader.parked() == []
    assert pending(store) == [("a", "new")]


def test_only_the_next_change_can_be_parked(store: MemoryStore) -> None:
    write(store, a_write(1, "a"), a_write(2, "b"))
    before = file_of(store)
    seq = store.readers().outbox.pending("vector")[1].seq
    with pytest.raises(InvalidInputError, match="not the next"):
        store.park(kind="vector", seq=seq, error="e", at=at(5))
    assert file_of(store) == before


def test_a_vector_is_registered_once_with_what_it_is_made_of_now(store: MemoryStore) -> None:
    write(store, a_write(1), a_write(2, scope=ANA))
    store.record_embeddings(embeddings=[an_embedding(), an_embedding(vector_id=vector_id(AGENT, ANA, "color"))])
    latest = an_embedding(model="other", dimensions=768)
    assert store.record_embeddings(embeddings=[latest]) == [latest]
    assert store.readers().scan.embeddings([COLOR]) == {COLOR: latest}
    assert store.readers().scan.embedded_models() == {("bge", 384): 1, ("other", 768): 1}
    assert store.readers().scan.counts().embeddings == 2


@pytest.mark.parametrize("change", ["other value", "forgotten", "a task", "never there"])
def test_a_vector_of_what_is_no_longer_there_is_not_registered(store: MemoryStore, change: str) -> None:
    if change != "never there":
        write(store, a_write(1))
    if change == "other value":
        write(store, a_write(2, value="green"))
    elif change == "forgotten":
        store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="color", at=at(2))
    elif change == "a task":
        write(store, a_write(2, fact_type="task"))
    assert store.record_embeddings(embeddings=[an_embedding()]) == []
    assert registered(store) == []


def test_a_forgotten_memory_is_no_longer_registered_so_that_the_same_value_is_embedded_again(
    store: MemoryStore,
) -> None:
    write(store, a_write(1))
    store.record_embeddings(embeddings=[an_embedding()])
    assert registered(store) == [COLOR]
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="color", at=at(2))
    assert registered(store) == []
    write(store, a_write(3))
    assert registered(store) == []


def test_a_version_of_the_same_value_stays_registered(store: MemoryStore) -> None:
    write(store, a_write(1))
    store.record_embeddings(embeddings=[an_embedding()])
    write(store, a_write(2, metadata='{"a": 1}'))
    assert registered(store) == [COLOR]


def test_everything_that_is_active_is_scanned_in_parts_and_counted(store: MemoryStore) -> None:
    write(store, *(a_write(number, f"k{number}", scope=ANA) for number in range(1, 6)))
    write(store, a_write(6, "k6", fact_type="task"), a_write(7, "k1", "new", scope=ANA, verification="unverified"))
    store.forget(agent_id=AGENT, scope=ANA, key="k2", at=at(9))
    scan = store.readers().scan
    first = scan.active_page(limit=3)
    rest = scan.active_page(after_row=first[-1].row_id)
    assert [memory.key for memory in (*first, *rest)] == ["k3", "k4", "k5", "k6", "k1"]
    assert [memory.key for memory in scan.unverified_page()] == ["k1"]
    assert scan.agents() == [AGENT]
    counts = scan.counts()
    assert (counts.active, counts.superseded, counts.tasks, counts.unverified) == (5, 2, 1, 1)
    assert (counts.pending, counts.parked) == ({"keyword": 8, "vector": 7}, {})
