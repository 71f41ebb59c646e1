"""Memories that are erased are gone from every table, and nothing brings them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.storage.memory_index_records import Embedding
from perdure.storage.memory_input import content_hash
from perdure.storage.memory_keys import AGENT_WIDE, Visibility, vector_id
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import Erased
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import (
    AGENT,
    ANA,
    BO,
    EVERYTHING,
    a_write,
    current,
    file_of,
    memory_id,
    open_memories,
    sees,
    write,
)

SECRET = "swordfish"
HERS = Visibility(agent_id=AGENT, scopes=(ANA,))
WRITES = [
    a_write(1, value=SECRET, scope=ANA),
    a_write(2, value=f"{SECRET} again", scope=ANA),
    a_write(3, "food", SECRET, scope=ANA),
    a_write(4, "food", "rice", scope=BO),
    a_write(5, "pet", "cat"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.duckdb"


def filled(path: Path) -> MemoryStore:
    store = open_memories(path)
    write(store, *WRITES)
    store.forget(agent_id=AGENT, scope=ANA, key="food", at=at(6))
    store.record_embeddings(
        embeddings=[
            Embedding(
                vector_id=vector_id(AGENT, ANA, "color"), model="m", dimensions=8, chunk_count=1, embedded_at=at(7),
                content_hash=content_hash(f"{SECRET} again"),
            )
        ]
    )  # fmt: skip
    first = store.readers().outbox.pending("keyword")[0]
    store.park(kind="keyword", seq=first.seq, error=f"cannot take {SECRET}", at=at(8))
    return store


def test_everything_of_a_contact_goes_from_every_table_and_nothing_of_others(path: Path) -> None:
    store = filled(path)
    assert SECRET in repr(file_of(store))
    assert store.erase_memories(visible=HERS, at=at(9)) == Erased(memories=2, versions=3, embeddings=1)
    assert SECRET not in repr(file_of(store))
    assert store.readers().memories.every_version(HERS) == []
    assert (current(store, "food", BO).value, current(store, "pet").value) == ("rice", "cat")
    assert store.hot.touches(HERS) == []
    store.close()


def test_the_indexes_are_told_what_has_to_go(path: Path) -> None:
    store = filled(path)
    store.acknowledge(kind="vector", seq=10**9)
    store.erase_memories(visible=HERS, at=at(9))
    [gone] = store.readers().outbox.pending("vector")
    assert (gone.vector_id, gone.memory) == (vector_id(AGENT, ANA, "color"), None)
    store.close()


def test_late_repeats_of_erased_writes_store_nothing_also_after_a_restart(path: Path) -> None:
    store = filled(path)
    store.erase_memories(visible=HERS, at=at(9))
    before = file_of(store)
    assert [result.outcome for result in write(store, *WRITES[:3])] == ["created", "versioned", "created"]
    store.close()
    store = open_memories(path)
    write(store, *WRITES)
    assert file_of(store) == before
    assert store.erase_memories(visible=HERS, at=at(10)) == Erased()
    store.close()


def test_one_memory_goes_with_its_history_and_what_may_not_be_seen_stays(path: Path) -> None:
    store = filled(path)
    before = file_of(store)
    assert store.erase_memories(visible=sees(BO), memory_ids=[memory_id(1), memory_id(99)], at=at(9)) == Erased()
    assert file_of(store) == before
    assert store.erase_memories(visible=EVERYTHING, memory_ids=[memory_id(1)], at=at(9)).versions == 2
    assert current(store, scope=ANA) is None
    [result] = write(store, a_write(11, scope=ANA))
    assert result.outcome == "created"
    store.close()


def test_after_an_erasure_rows_are_numbered_as_after_a_restart(path: Path) -> None:
    store = filled(path)
    store.erase_memories(visible=Visibility(agent_id=AGENT, scopes=(AGENT_WIDE,)), at=at(9))
    write(store, a_write(11))
    row = current(store).row_id
    store.erase_memories(visible=EVERYTHING, memory_ids=[memory_id(11)], at=at(12))
    store.close()
    store = open_memories(path)
    write(store, a_write(13))
    assert current(store).row_id == row
    store.close()
