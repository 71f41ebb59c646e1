"""What is read of memories, and that nobody reads what is another's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from perdure.storage.hot_memories import HotMemories
from perdure.storage.memory_keys import AGENT_WIDE, Scope, VectorId, Visibility, query_tokens, vector_id
from perdure.storage.memory_reader import MemoryReader
from perdure.storage.memory_readers import MemoryReaders
from perdure.storage.memory_records import Memory, MemoryFilter, MemoryOrder
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import Access
from perdure.storage.records import ContactId
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import (
    AGENT,
    ANA,
    BO,
    EVERYTHING,
    OTHER_AGENT,
    a_write,
    memory_id,
    open_memories,
    sees,
    version,
    write,
)

MARKER = "swordfish"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


@pytest.fixture
def readers(store: MemoryStore) -> MemoryReaders:
    return store.readers()


def keys(memories: list[Memory]) -> list[str]:
    return [memory.key for memory in memories]


ARGUMENTS: dict[str, Any] = {
    "key": "allergy",
    "memory_id": memory_id(1),
    "memory_ids": [memory_id(1), memory_id(2), "no id"],
    "version_id": version(1),
    "vector_ids": [vector_id(AGENT, ANA, "allergy"), vector_id(OTHER_AGENT, AGENT_WIDE, "allergy")],
    "row_ids": range(100),
    "tokens": query_tokens("allergy"),
    "moment": at(99),
    "wanted": MemoryFilter(containing=MARKER),
}
OF_THE_WRITER = {"apply", "changing", "held_bytes", "holds", "matching"}


def reading_methods(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_") and name not in OF_THE_WRITER]


@pytest.mark.parametrize(
    ("kind", "method"), [(kind, name) for kind in (MemoryReader, HotMemories) for name in reading_methods(kind)]
)
def test_no_read_shows_what_is_another_contacts_or_another_agents(
    store: MemoryStore, readers: MemoryReaders, kind: type, method: str
) -> None:
    for number, (scope, agent) in enumerate([(ANA, AGENT), (AGENT_WIDE, OTHER_AGENT), (BO, OTHER_AGENT)], start=1):
        given: dict[str, Any] = {"scope": scope, "agent_id": agent, "metadata": json.dumps({"seen": MARKER})}
        write(store, a_write(number, "allergy", f"former {MARKER}", **given))
        write(store, a_write(number + 10, "allergy", f"{MARKER} {number}", **given))
    reader = readers.memories if kind is MemoryReader else store.hot
    read: Callable[..., Any] = getattr(reader, method)
    first, *rest = [name for name in inspect.signature(read).parameters if name not in ("order", "limit", "offset")]
    assert first == "visible"
    arguments = {name: ARGUMENTS[name] for name in rest}

    for allowed in (sees(ANA), EVERYTHING):  # guards the test itself: what is there is shown to whom it belongs
        seen = read(allowed, **arguments)
        assert MARKER in repr(seen) or (method in ("count", "has_any", "touches") and seen)
    for hidden in (
        sees(BO), sees(AGENT_WIDE), Visibility(agent_id=AGENT, scopes=()),
        Visibility.of_contact(AGENT, ContactId("telegram:ana:")), Visibility.of_contact(AGENT, ContactId("%")),
    ):  # fmt: skip
        assert not read(hidden, **arguments)


def test_a_key_is_taken_from_the_first_scope_that_has_it(store: MemoryStore, readers: MemoryReaders) -> None:
    write(store, a_write(1, value="wide"), a_write(2, value="hers", scope=ANA), a_write(3, "food", "rice"))
    for reader in (readers.memories, store.hot):
        assert reader.current(sees(ANA), "color").value == "hers"
        assert reader.current(sees(BO), "color").value == "wide"
        assert reader.current(sees(ANA), "food").value == "rice"
        assert reader.current(Visibility(agent_id=AGENT, scopes=(AGENT_WIDE, ANA)), "color").value == "wide"
        assert reader.current(EVERYTHING, "color").value == "wide"
        assert reader.current(sees(ANA), "pet") is None


def test_a_memory_is_found_by_its_id_through_its_versions_and_after_it_was_superseded(
    store: MemoryStore, readers: MemoryReaders
) -> None:
    write(store, a_write(1, value="a", valid_from=at(-5)), a_write(2, value="b"))
    write(store, a_write(3, value="c", valid_from=at(-9)))
    assert readers.memories.by_id(EVERYTHING, memory_id(1)).value == "b"
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="color", at=at(9))
    assert readers.memories.by_id(EVERYTHING, memory_id(1)).value == "b"
    assert [memory.value for memory in readers.memories.every_version(EVERYTHING, [memory_id(1)])] == ["a", "b", "c"]
    assert readers.memories.version(EVERYTHING, version(1, 3)).value == "c"
    assert readers.memories.version(EVERYTHING, version(1, 4)) is None
    assert readers.memories.by_id(EVERYTHING, memory_id(9)) is None


def test_hits_of_an_index_resolve_to_active_versions_and_stale_ones_to_nothing(
    store: MemoryStore, readers: MemoryReaders
) -> None:
    write(store, a_write(1, "a", scope=ANA), a_write(2, "b"), a_write(3, "c"), a_write(4, "a", "wide"))
    write(store, a_write(5, "c", "new"))
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="b", at=at(9))
    hits = [vector_id(AGENT, scope, key) for scope in (ANA, AGENT_WIDE) for key in ("a", "b", "c")]
    for reader in (readers.memories, store.hot):
        found = reader.by_vector_ids(sees(ANA), [*hits, *map(VectorId, ("mem:garbage", "", "mem:x:memory:a:b:c"))])
        assert {each: memory.value for each, memory in found.items()} == {
            hits[0]: "blue", hits[3]: "wide", hits[5]: "new",
        }  # fmt: skip


def test_what_held_at_a_moment_follows_what_was_said_when_not_when_it_was_stored(
    store: MemoryStore, readers: MemoryReaders
) -> None:
    write(store, a_write(1, "work", "at B", valid_from=at(-200)))
    write(store, a_write(2, "work", "at C", valid_from=at(-100)))
    write(store, a_write(3, "work", "at A", valid_from=at(-900)))
    write(store, a_write(4, "pet", "cat", valid_from=at(-300)))
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="pet", at=at(5))

    def held(seconds: float, key: str | None = None) -> list[str]:
        return sorted(memory.value for memory in readers.memories.as_of(EVERYTHING, at(seconds), key))

    assert [held(seconds) for seconds in (-901, -900, -300, -200, -150, -100, 4, 5)] == [
        [], ["at A"], ["at A", "cat"], ["at B", "cat"], ["at B", "cat"], ["at C", "cat"], ["at C", "cat"], ["at C"],
    ]  # fmt: skip
    assert held(4, "pet") == ["cat"]


def test_a_list_has_what_passes_every_filter_in_order_and_in_parts(store: MemoryStore, readers: MemoryReaders) -> None:
    write(
        store, a_write(3, "c", "50% OFF_now", fact_type="event", graph_id="g"), a_write(1, "a", "Ärger", scope=ANA),
        a_write(2, "b", "50 x off now", fact_type="skill", session_id="s", graph_id="g"), a_write(4, "d", task_id="t"),
        a_write(5, "e", fact_type="task"), a_write(6, "d", "new", task_id="t"),
    )  # fmt: skip

    def listed(**wanted: Any) -> list[str]:
        found = keys(readers.memories.page(EVERYTHING, MemoryFilter(**wanted)))
        assert readers.memories.count(EVERYTHING, MemoryFilter(**wanted)) == len(found)
        return found

    assert listed() == ["e", "d", "c", "b", "a"]
    assert listed(kinds=("event", "instruction")) == ["c", "b"]
    assert listed(kinds=()) == []
    assert listed(graph_id="g") == ["c", "b"]
    assert (listed(graph_id="g", session_id="s"), listed(task_id="t"), listed(task_id="'")) == (["b"], ["d"], [])
    assert listed(created_from=at(2), created_to=at(4)) == ["d", "c", "b"]
    assert (listed(containing="50% off_NOW"), listed(containing="%"), listed(containing="ärger")) == (
        ["c"],
        ["c"],
        ["a"],
    )
    assert keys(readers.memories.page(sees(BO))) == ["e", "d", "c", "b"]
    oldest_first = MemoryOrder(is_descending=False)
    by_update = MemoryOrder(by="updated_at")
    assert keys(readers.memories.page(EVERYTHING, order=oldest_first, limit=2, offset=1)) == ["b", "c"]
    assert keys(readers.memories.page(EVERYTHING, order=by_update)) == ["d", "e", "c", "b", "a"]


def test_parts_of_a_list_of_equal_moments_make_the_whole_list(store: MemoryStore, readers: MemoryReaders) -> None:
    write(store, *(a_write(number, f"k{number}", at=at(1)) for number in range(1, 40)))
    for order in (MemoryOrder(), MemoryOrder(by="updated_at", is_descending=False)):
        parts = [readers.memories.page(EVERYTHING, order=order, limit=7, offset=offset) for offset in range(0, 42, 7)]
        assert [row for part in parts for row in part] == readers.memories.page(EVERYTHING, order=order)


def test_exact_keys_have_most_matching_segments_first_then_the_surest_then_the_newest(
    store: MemoryStore, readers: MemoryReaders
) -> None:
    write(
        store, a_write(1, "food.thai", confidence=0.5), a_write(2, "food/Thai-soup", scope=ANA, confidence=0.9),
        a_write(3, "food:thai_SOUP", confidence=0.2), a_write(4, "food", confidence=0.5), a_write(5, "seafood"),
        a_write(6, "contact:telegram:ana:food"), a_write(7, "soup", scope=BO),
    )  # fmt: skip
    for reader in (readers.memories, store.hot):
        matches = reader.exact_key(sees(ANA), query_tokens("Thai soup?"))
        assert [(match.memory.row_id, match.segments) for match in matches] == [(2, 2), (3, 2), (1, 1)]
        assert len(reader.exact_key(sees(ANA), query_tokens("food"), limit=2)) == 2
        assert reader.exact_key(sees(ANA), frozenset()) == []


def test_touches_tell_the_last_access_or_the_creation(store: MemoryStore, readers: MemoryReaders) -> None:
    write(store, a_write(1, "a"), a_write(2, "b"))
    store.record_access(agent_id=AGENT, accesses=[Access(memory_id=memory_id(2), times=2, at=at(50))])
    for reader in (readers.memories, store.hot):
        told = {touch.row_id: (touch.touched_s, touch.access_count) for touch in reader.touches(EVERYTHING)}
        assert told == {1: (at(1).timestamp(), 0), 2: (at(50).timestamp(), 2)}


def test_moments_of_any_zone_and_of_none_are_compared_in_utc(store: MemoryStore, readers: MemoryReaders) -> None:
    nine = timezone(timedelta(hours=9))
    naive = at(50).replace(tzinfo=None)
    write(store, a_write(1, "a", at=naive), a_write(2, "b", at=at(50).astimezone(nine), valid_from=naive))
    first, second = readers.memories.page(EVERYTHING, order=MemoryOrder(is_descending=False))
    assert (first.created_at, second.created_at, second.valid_from) == (at(50), at(50), at(50))
    assert first.created_at.tzinfo is not None
    for moment in (naive, at(50).astimezone(nine)):
        assert readers.memories.count(EVERYTHING, MemoryFilter(created_from=moment, created_to=moment)) == 2
        assert len(readers.memories.as_of(EVERYTHING, moment)) == 2


@pytest.mark.parametrize("contact", ["O'Brien", "a%b_c", 'x" OR 1=1 --', "Ünï 🛫", "memory:contact:telegram:ana", " "])
def test_a_contact_of_any_name_finds_its_own_memory_and_nobody_elses(
    store: MemoryStore, readers: MemoryReaders, contact: str
) -> None:
    own = Scope(contact_id=ContactId(contact))
    write(store, a_write(1, scope=ANA))
    if contact.isspace():
        assert type(store.write_memories(writes=[a_write(2, scope=own)])[0]).__name__ == "WriteRefused"
        return
    write(store, a_write(2, scope=own, value="mine"))
    for reader in (readers.memories, store.hot):
        assert reader.current(sees(own), "color").value == "mine"
        assert [touch.row_id for touch in reader.touches(sees(own))] == [2]
    assert keys(readers.memories.page(sees(own))) == ["color"]
