"""What writes do to memories: versions, confirmations, what is replaced and what is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from perdure.storage.database import Database
from perdure.storage.errors import InvalidInputError, MemoryConflictError, StorageError
from perdure.storage.memory_keys import AGENT_WIDE
from perdure.storage.memory_records import FORGOTTEN, Memory, MemoryId, Provenance, WriteId
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import Access, WriteRefused
from perdure.storage.records import ConversationId, MessageId
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import (
    AGENT,
    ANA,
    BO,
    EVERYTHING,
    OTHER_AGENT,
    a_write,
    current,
    file_of,
    memory_id,
    open_memories,
    sees,
    version,
    write,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


def history(store: MemoryStore, key: str = "color") -> list[Memory]:
    return store.readers().memories.history(EVERYTHING, key)


def test_a_new_key_is_a_memory_with_version_one_and_all_that_was_said_of_it(store: MemoryStore) -> None:
    provenance = Provenance(conversation_id=ConversationId("c/1"), message_ids=(MessageId("m1"),), tool="calendar")
    asked = a_write(
        1, "home.city", "Lisbon", scope=ANA, fact_type="identity", metadata='{"b": 1, "a": [null]}', graph_id="g",
        task_id="t", session_id="s", source="extraction", provenance=provenance, verification="unverified",
        valid_from=at(-9),
    )  # fmt: skip
    [result] = write(store, asked)
    assert (result.outcome, result.version_id, result.superseded) == ("created", version(1), ())
    assert current(store, "home.city", ANA) == Memory(
        row_id=1, memory_id=memory_id(1), version=1, agent_id=AGENT, scope=ANA, key="home.city", value="Lisbon",
        fact_type="identity", kind="fact", metadata='{"a": [null], "b": 1}', graph_id="g", task_id="t",
        session_id="s", source="extraction", provenance=provenance, confidence=0.5, verification="unverified",
        created_at=at(1), updated_at=at(1), valid_from=at(-9),
    )  # fmt: skip


def test_another_value_is_a_version_that_takes_the_place_of_the_former(store: MemoryStore) -> None:
    [_, result] = write(store, a_write(1, value="blue"), a_write(2, value="green"))
    assert (result.outcome, result.version_id, result.superseded) == ("versioned", version(1, 2), (version(1),))
    former, latter = history(store)
    assert current(store) == latter
    assert (latter.memory_id, latter.value, latter.created_at, latter.updated_at) == (
        memory_id(1),
        "green",
        at(1),
        at(2),
    )
    assert (former.value, former.superseded_by, former.superseded_at, former.reason) == (
        "blue", version(1, 2), at(2), "new value",
    )  # fmt: skip


def test_the_same_value_confirms_what_is_known_and_adds_no_version(store: MemoryStore) -> None:
    write(store, a_write(1, source="extraction"))
    before = store.readers().outbox.pending("vector")
    [result] = write(store, a_write(2, source="remember"))
    assert (result.outcome, result.version_id) == ("confirmed", version(1))
    [memory] = history(store)
    assert (memory.confidence, memory.updated_at, memory.created_at) == (0.9, at(2), at(1))
    write(store, a_write(3, source="extraction"))
    assert current(store).confidence == 0.9
    assert [change.seq for change in store.readers().outbox.pending("vector")] == [change.seq for change in before]


def test_the_same_value_with_other_metadata_or_of_another_type_is_a_version_that_keeps_the_rest(
    store: MemoryStore,
) -> None:
    write(store, a_write(1, metadata='{"a": 1}', fact_type="preference", graph_id="g"))
    write(store, a_write(2, metadata='{"a": 2}', source="extraction"))
    write(store, a_write(3, fact_type="event", session_id="s", source="extraction"))
    memory = current(store)
    assert (memory.version, memory.metadata, memory.fact_type, memory.kind) == (3, '{"a": 2}', "event", "event")
    assert (memory.graph_id, memory.session_id, memory.confidence) == ("g", "s", 0.9)
    assert write(store, a_write(4))[0].outcome == "confirmed"


def test_a_write_of_what_was_said_before_what_is_known_is_stored_as_a_former_version(store: MemoryStore) -> None:
    write(store, a_write(1, value="works at B", valid_from=at(-100)))
    [result] = write(store, a_write(2, value="works at A", valid_from=at(-900)))
    assert (result.outcome, result.superseded) == ("outdated", ())
    assert current(store).value == "works at B"
    outdated = history(store)[1]
    assert (outdated.superseded_by, outdated.valid_from, outdated.valid_to) == (version(1), at(-900), at(-100))
    [next_one] = write(store, a_write(3, value="works at C"))
    assert next_one.version_id == version(1, 3)


def test_a_key_is_another_memory_in_every_scope_and_of_every_agent(store: MemoryStore) -> None:
    write(
        store, a_write(1), a_write(2, scope=ANA, value="red"), a_write(3, scope=BO, value="tan"),
        a_write(4, agent_id=OTHER_AGENT, value="ice"),
    )  # fmt: skip
    assert [current(store, scope=scope).value for scope in (AGENT_WIDE, ANA, BO)] == ["blue", "red", "tan"]
    write(store, a_write(5, scope=ANA, value="pink"))
    assert [current(store, scope=scope).value for scope in (AGENT_WIDE, ANA, BO)] == ["blue", "pink", "tan"]


def test_a_repeated_write_is_told_the_first_result_also_after_a_restart(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    asked = [a_write(1), a_write(2, value="green"), a_write(3, "food", "rice", supersedes=(version(1, 2),))]
    results = write(store, *asked)
    again = [a_write(1, memory_id=memory_id(77), at=at(99)), *asked[1:]]
    before = file_of(store)
    assert write(store, *again) == results
    store.close()
    store = open_memories(tmp_path / "memory.duckdb")
    assert write(store, *again) == results
    assert file_of(store) == before
    write(store, a_write(9, "food", "soup"))
    assert write(store, *again) == results
    assert current(store, "food").value == "soup"
    store.close()


def test_a_write_twice_in_one_batch_is_stored_once(store: MemoryStore) -> None:
    first, second = write(store, a_write(1), a_write(1))
    assert first == second
    assert len(history(store)) == 1


def test_a_write_id_with_other_content_is_refused_and_nothing_of_it_stored(store: MemoryStore) -> None:
    write(store, a_write(1))
    before = file_of(store)
    [refused] = store.write_memories(writes=[a_write(1, value="red")])
    assert isinstance(refused, WriteRefused)
    assert isinstance(refused.error, MemoryConflictError)
    assert str(refused.error) == "write_id 'w1' is already stored with other content; use a new id"
    assert file_of(store) == before
    assert write(store, a_write(1, agent_id=OTHER_AGENT, value="red", memory_id=memory_id(2)))


def test_a_memory_id_that_is_taken_is_refused(store: MemoryStore) -> None:
    write(store, a_write(1))
    results = store.write_memories(
        writes=[
            a_write(2, "food", "rice", memory_id=memory_id(1)),
            a_write(3, "pet", "cat"),
            a_write(4, "sport", "chess", memory_id=memory_id(3)),
        ]
    )
    assert [type(result).__name__ for result in results] == ["WriteRefused", "WriteResult", "WriteRefused"]
    assert current(store, "pet").value == "cat"


def test_a_write_that_cannot_be_stored_harms_none_beside_it(store: MemoryStore) -> None:
    results = store.write_memories(
        writes=[
            a_write(1, key="k" * 1025),
            a_write(2),
            a_write(3, value=" \n"),
            a_write(4, confidence=float("nan")),
            a_write(5, metadata="[1]"),
            a_write(6, memory_id="no uuid"),
            a_write(7, key="food", value="rice"),
        ]
    )
    assert [getattr(getattr(result, "error", None), "field", "stored") for result in results] == [
        "key", "stored", "value", "confidence", "metadata", "memory_id", "stored",
    ]  # fmt: skip
    assert current(store).value == "blue"
    assert current(store, "food").value == "rice"


def test_a_repeat_is_known_as_one_though_what_it_replaced_is_no_longer_there_to_be_named(store: MemoryStore) -> None:
    write(store, a_write(1))
    [first] = write(store, a_write(2, "colour", "green", supersedes=(version(1),)))
    assert write(store, a_write(2, "colour", "green")) == [first]
    assert first.superseded == (version(1),)


def test_a_write_supersedes_those_of_its_scope_that_are_still_active(store: MemoryStore) -> None:
    write(
        store, a_write(1, "a", scope=ANA), a_write(2, "b", scope=ANA), a_write(3, "c", scope=BO), a_write(4, "d"),
        a_write(5, "e", scope=ANA), a_write(6, "e", "other", scope=ANA), a_write(7, "f", agent_id=OTHER_AGENT),
    )  # fmt: skip
    targets = (version(1), version(2), version(3), version(4), version(5), version(7), version(999))
    [result] = write(store, a_write(8, "g", scope=ANA, supersedes=targets, reason="merged"))
    assert result.superseded == (version(1), version(2))
    former = history(store, "a")[0]
    assert (former.superseded_by, former.superseded_at, former.reason) == (version(8), at(8), "merged")
    kept = [("c", BO), ("d", AGENT_WIDE), ("e", ANA)]
    assert all(current(store, key, scope) for key, scope in kept)
    assert current(store, "a", ANA) is None


def test_of_two_writes_that_supersede_the_same_the_first_does(store: MemoryStore) -> None:
    write(store, a_write(1, "a"))
    first, second = write(store, a_write(2, "b", supersedes=(version(1),)), a_write(3, "c", supersedes=(version(1),)))
    assert (first.superseded, second.superseded) == ((version(1),), ())
    assert history(store, "a")[0].superseded_by == version(2)


def test_versions_are_superseded_by_an_active_one_or_left_as_they_are(store: MemoryStore) -> None:
    write(store, a_write(1, "a"), a_write(2, "b"), a_write(3, "b", "new"), a_write(4, "c", scope=ANA))
    asked: dict[str, Any] = {"agent_id": AGENT, "reason": "says less", "at": at(9)}
    assert store.supersede(versions=[version(1)], by=version(2), **asked) == []
    assert store.supersede(versions=[version(1), version(4)], by=version(2, 2), **asked) == [version(1)]
    assert store.supersede(versions=[version(1)], by=version(2, 2), **asked) == []
    assert current(store, "a") is None
    assert current(store, "c", ANA) is not None
    assert history(store, "a")[0].superseded_by == version(2, 2)


def test_what_is_forgotten_is_superseded_by_nothing_and_its_key_begins_a_new_memory(store: MemoryStore) -> None:
    write(store, a_write(1, scope=ANA))
    assert store.forget(agent_id=AGENT, scope=BO, key="color", at=at(2)) is None
    assert store.forget(agent_id=AGENT, scope=ANA, key="color", at=at(3)) == version(1)
    assert store.forget(agent_id=AGENT, scope=ANA, key="color", at=at(4)) is None
    [forgotten] = history(store)
    assert (forgotten.superseded_by, forgotten.superseded_at, forgotten.reason) == (None, at(3), FORGOTTEN)
    assert current(store, scope=ANA) is None
    [result] = write(store, a_write(5, scope=ANA))
    assert (result.outcome, result.version_id) == ("created", version(5))


def test_an_update_is_a_version_and_what_is_not_given_stays(store: MemoryStore) -> None:
    write(store, a_write(1, scope=ANA, metadata='{"a": 1}', fact_type="skill"))
    updated = store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), value="navy", at=at(5))
    assert updated == current(store, scope=ANA)
    assert (updated.version, updated.value, updated.metadata, updated.fact_type) == (2, "navy", '{"a": 1}', "skill")
    assert (updated.created_at, updated.updated_at, updated.memory_id) == (at(1), at(5), memory_id(1))
    again = store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), value="navy", at=at(6))
    assert again == updated
    meta = store.update_memory(visible=sees(ANA), memory_id=memory_id(1), metadata="{}", at=at(7))
    assert (meta.version, meta.value, meta.metadata) == (3, "navy", "{}")


def test_an_update_finds_nothing_that_is_hidden_superseded_or_unknown(store: MemoryStore) -> None:
    write(store, a_write(1, scope=ANA), a_write(2, "food", "rice"))
    store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="food", at=at(3))
    before = file_of(store)
    for visible, wanted in ((sees(BO), 1), (EVERYTHING, 2), (EVERYTHING, 99)):
        assert store.update_memory(visible=visible, memory_id=memory_id(wanted), value="x", at=at(5)) is None
    assert store.update_memory(visible=EVERYTHING, memory_id=MemoryId("x' OR 1=1"), value="x", at=at(5)) is None
    with pytest.raises(InvalidInputError, match="value"):
        store.update_memory(visible=EVERYTHING, memory_id=memory_id(1), value="", at=at(5))
    assert file_of(store) == before


def test_accesses_are_counted_and_a_new_version_goes_on_counting(store: MemoryStore) -> None:
    write(store, a_write(1), a_write(2, "food", "rice"))
    uses = [Access(memory_id=memory_id(1), at=at(9)), Access(memory_id=memory_id(1), times=3, at=at(8))]
    store.record_access(agent_id=AGENT, accesses=[*uses, Access(memory_id=memory_id(99), at=at(9))])
    write(store, a_write(3, value="green"))
    memory = current(store)
    assert (memory.access_count, memory.accessed_at, memory.updated_at) == (4, at(9), at(3))
    assert current(store, "food").access_count == 0


def test_active_versions_are_marked_verified(store: MemoryStore) -> None:
    write(store, a_write(1, verification="unverified"), a_write(2, value="green", verification="unverified"))
    store.set_verification(agent_id=AGENT, versions=[version(1), version(1, 2)], verification="verified")
    assert [memory.verification for memory in history(store)] == ["unverified", "verified"]


def test_a_commit_that_fails_leaves_memory_and_file_as_they_were(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, a_write(1), a_write(2, "food", "rice"))
    before = (file_of(store), current(store), store.hot.touches(EVERYTHING))

    def fails(*_: object) -> None:
        raise duckdb.IOException("IO Error: injected")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "_write", fails)
        with pytest.raises(StorageError, match="injected"):
            store.write_memories(writes=[a_write(3, value="green"), a_write(4, "pet", "cat")])
        with pytest.raises(StorageError, match="injected"):
            store.forget(agent_id=AGENT, scope=AGENT_WIDE, key="food", at=at(5))
    assert (file_of(store), current(store), store.hot.touches(EVERYTHING)) == before
    [result] = write(store, a_write(3, value="green"))
    assert result.outcome == "versioned"
    assert [memory.row_id for memory in history(store)] == [1, 3]


@pytest.mark.parametrize("known", [False, True])
def test_a_batch_of_any_size_is_one_transaction_of_a_few_statements(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    if known:
        write(store, *(a_write(number, f"k{number}", "former") for number in range(1, 33)))
    commits: list[int] = []
    send = Database._write

    def counted(database: Database, statements: Any) -> None:
        commits.append(len(statements))
        send(database, statements)

    monkeypatch.setattr(Database, "_write", counted)
    write(store, a_write(100, "k1"))
    write(store, *(a_write(number + 100, f"k{number}") for number in range(2, 33)))
    [single, batch] = commits
    assert batch == single <= 4


def test_what_old_writes_did_can_be_forgotten(store: MemoryStore) -> None:
    write(store, a_write(1), a_write(2, "food", "rice"))
    store.prune_writes(before=at(2))
    assert [row[2] for row in file_of(store)["memory_writes"]] == [WriteId("w2")]
