"""Whatever is written in whatever order: the file, the memory beside it and the indexes behind it say what is right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.storage.memory_index_records import INDEX_KINDS, Embedding
from perdure.storage.memory_input import content_hash
from perdure.storage.memory_keys import Visibility, query_tokens, vector_id
from perdure.storage.memory_readers import MemoryReaders
from perdure.storage.memory_records import Memory, VersionId
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import Erased, WriteRefused, WriteResult
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import AGENT, ANA, BO, OTHER_AGENT, open_memories
from tests.fixtures.plain_memories import PlainMemories, told
from tests.fixtures.random_memory_steps import KEYS, SCOPES, RandomMemorySteps, make

VISIBLE = [
    *(Visibility.of_contact(AGENT, scope.contact_id) for scope in SCOPES),
    *(Visibility(agent_id=AGENT, scopes=(scope,)) for scope in SCOPES),
    Visibility(agent_id=AGENT, scopes=(BO, ANA)),
    Visibility(agent_id=AGENT, scopes=()),
    *(Visibility.of_agent(agent) for agent in (AGENT, OTHER_AGENT)),
]


def plain(memory: Memory) -> tuple[Any, ...]:
    """What a memory says, as `told` has it."""
    by = memory.superseded_by
    return (
        memory.agent_id, memory.scope, memory.key, memory.memory_id, memory.version, memory.value, memory.fact_type,
        memory.kind, memory.metadata, (memory.graph_id, memory.task_id, memory.session_id), memory.confidence,
        memory.verification, memory.access_count, memory.valid_from, not memory.is_active,
        (by.memory_id, by.version) if by is not None else None, memory.created_at, memory.updated_at,
        memory.accessed_at, memory.decayed_at,
    )  # fmt: skip


def answered(result: Any) -> Any:
    """What a call returned, as the plain store has it."""
    match result:
        case WriteRefused():
            return "refused"
        case WriteResult():
            return result.outcome, answered(result.version_id), answered(result.superseded)
        case VersionId():
            return result.memory_id, result.version
        case Memory():
            return answered(result.version_id)
        case Erased():
            return result.memories, result.versions
        case list() | tuple():
            return [answered(each) for each in result]
        case _:
            return None


def check_memory_against_file(store: MemoryStore, readers: MemoryReaders) -> None:
    ids = [vector_id(agent, scope, key) for agent in (AGENT, OTHER_AGENT) for scope in SCOPES for key in KEYS]
    rows = range(60)
    tokens = query_tokens("Which color, contact or role of 2024 has Ana in 🗝?")
    for visible in VISIBLE:
        file, hot = readers.memories, store.hot
        assert [hot.current(visible, key) for key in KEYS] == [file.current(visible, key) for key in KEYS]
        assert hot.by_vector_ids(visible, ids) == file.by_vector_ids(visible, ids)
        assert hot.by_rows(visible, rows) == file.by_rows(visible, rows)
        assert hot.exact_key(visible, tokens, 5) == file.exact_key(visible, tokens, 5)
        by_row = lambda touch: touch.row_id  # noqa: E731
        assert hot.has_any(visible) == file.has_any(visible) == bool(len(file.touches(visible)))
        assert sorted(hot.touches(visible), key=by_row) == sorted(file.touches(visible), key=by_row)


class Indexes:
    """What derived indexes hold when they do what they are told; a vector is made only where the registry asks."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, str]] = {kind: {} for kind in INDEX_KINDS}

    def follow(self, store: MemoryStore, readers: MemoryReaders) -> None:
        for kind in INDEX_KINDS:
            for change in readers.outbox.pending(kind, limit=1_000):
                held = self.held[kind]
                if change.memory is None:
                    held.pop(change.vector_id, None)
                    continue
                digest = content_hash(change.memory.value)
                known = readers.scan.embeddings([change.vector_id]).get(change.vector_id)
                if kind == "vector" and known is not None and known.content_hash == digest:
                    continue
                held[change.vector_id] = change.memory.value
                if kind == "vector":
                    made = Embedding(
                        vector_id=change.vector_id, model="m", dimensions=8, content_hash=digest, chunk_count=1,
                        embedded_at=at(0),
                    )  # fmt: skip
                    store.record_embeddings(embeddings=[made])
            store.acknowledge(kind=kind, seq=10**9)

    def check(self, active: Iterable[Memory]) -> None:
        expected = [(memory.vector_id, memory.value, memory.kind) for memory in active]
        assert self.held["keyword"] == {vector: value for vector, value, _ in expected}
        assert self.held["vector"] == {vector: value for vector, value, kind in expected if kind != "task"}


LEFT_TO_INDEXES = {"acknowledge", "fail", "park", "unpark", "record_embeddings"}


@pytest.mark.parametrize("hot_mib", [128, 0])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_file_memory_and_indexes_say_what_a_plain_list_of_versions_says(
    seed: int, hot_mib: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = open_memories(tmp_path_factory.mktemp("model") / "memory.duckdb", hot_mib=hot_mib)
    readers, model, indexes = store.readers(), PlainMemories(), Indexes()
    for number, call in zip(range(100), RandomMemorySteps(seed), strict=False):
        if call.method in LEFT_TO_INDEXES:
            indexes.follow(store, readers)
            continue
        expected = getattr(model, call.method)(**call.arguments)
        assert answered(make(store, call)) == expected, f"seed {seed}, step {number}: {call}"
        if number % 25 == 0:
            check_memory_against_file(store, readers)
    check_memory_against_file(store, readers)
    versions = [
        memory
        for agent in (AGENT, OTHER_AGENT)
        for key in KEYS
        for memory in readers.memories.history(Visibility.of_agent(agent), key)
    ]
    assert sorted(map(plain, versions), key=repr) == sorted(map(told, model.rows), key=repr)
    indexes.follow(store, readers)
    indexes.check(readers.scan.active_page(limit=1_000))
    store.close()
