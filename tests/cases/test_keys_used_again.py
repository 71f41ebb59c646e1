"""A key that is used again after its memory was deleted has nothing of the former one: no vector, no history in recall.

https://github.com/langchain-ai/langgraph/issues/8757
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.storage.memory_index_records import Embedding
from perdure.storage.memory_input import content_hash
from perdure.storage.memory_keys import AGENT_WIDE, vector_id
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import AGENT, EVERYTHING, a_write, open_memories, write

pytestmark = pytest.mark.cases


def test_the_vector_of_a_deleted_memory_is_taken_away_and_never_counts_for_the_next_one_of_its_key(
    tmp_path: Path,
) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "k", "alpha"))
    place = vector_id(AGENT, AGENT_WIDE, "k")
    alpha = Embedding(
        vector_id=place,
        model="m",
        dimensions=8,
        content_hash=content_hash("alpha"),
        chunk_count=1,
        embedded_at=at(1),
    )
    assert store.record_embeddings(embeddings=[alpha]) == [alpha]
    store.acknowledge(kind="vector", seq=store.readers().outbox.pending("vector")[-1].seq)
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="k", at=at(2))
    [gone] = store.readers().outbox.pending("vector")
    assert (gone.vector_id, gone.memory) == (place, None)
    store.close()

    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(3, "k", "omega"))
    readers = store.readers()
    assert readers.scan.embeddings([place]) == {}
    assert store.record_embeddings(embeddings=[alpha]) == []
    assert [memory.version for memory in readers.memories.page(EVERYTHING)] == [1]
    store.close()
