"""What the directory keeps of agents and conversations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from perdure.storage.database import Database
from perdure.storage.directory_records import ConversationNote, ConversationRecord, JobRun
from perdure.storage.directory_store import KEPT_JOB_RUNS, DirectoryStore
from perdure.storage.errors import ContactMismatchError, FileCorruptError, StorageError
from perdure.storage.records import AgentName, ContactId, ConversationId
from tests.fixtures.conversation_file import at, tables

ANA = AgentName("assistant")
BO = AgentName("Büro/'2'")
C1 = ConversationId("support-42")
C2 = ConversationId("support/43 🛫")
CONTACT = ContactId("telegram:1234")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DirectoryStore]:
    opened = DirectoryStore.open(tmp_path / "directory.duckdb")
    yield opened
    opened.close()


def reopened(store: DirectoryStore) -> DirectoryStore:
    """Close the store and open its file again; it says the same."""
    before = (list(store.agents()), store.conversations(None, 1_000, 0))
    store.close()
    again = DirectoryStore.open(store._database.path)
    assert (list(again.agents()), again.conversations(None, 1_000, 0)) == before
    return again


def file_of(store: DirectoryStore) -> dict[str, list[tuple[object, ...]]]:
    return tables(store._database)


def test_a_new_agent_has_version_one_and_its_own_id(store: DirectoryStore) -> None:
    saved = store.save_agent(name=ANA, agent_id="id-1", options='{"model": null}', at=at(1))
    assert (saved.version, saved.agent_id, saved.created_at, saved.updated_at) == (1, "id-1", at(1), at(1))
    again = reopened(store)
    assert again.agent(ANA) == saved
    assert again.agent(BO) is None
    again.close()


def test_the_same_options_write_nothing(store: DirectoryStore) -> None:
    saved = store.save_agent(name=ANA, agent_id="id-1", options="{}", at=at(1))
    before = (file_of(store), store._database.wal_bytes)
    assert store.save_agent(name=ANA, agent_id="id-2", options="{}", at=at(2)) == saved
    assert (file_of(store), store._database.wal_bytes) == before


def test_other_options_are_a_new_version_of_the_same_agent(store: DirectoryStore) -> None:
    store.save_agent(name=ANA, agent_id="id-1", options="{}", at=at(1))
    store.save_agent(name=BO, agent_id="id-9", options="{}", at=at(1))
    for version in (2, 3):
        saved = store.save_agent(name=ANA, agent_id="id-2", options=f'{{"n": {version}}}', at=at(version))
        assert (saved.version, saved.agent_id) == (version, "id-1")
        assert (saved.created_at, saved.updated_at) == (at(1), at(version))
    again = reopened(store)
    assert [(agent.name, agent.version, agent.options) for agent in again.agents()] == [
        (BO, 1, "{}"),
        (ANA, 3, '{"n": 3}'),
    ]
    again.close()


def test_a_conversation_is_registered_once_and_keeps_its_contact(store: DirectoryStore) -> None:
    first = store.register_conversation(agent=ANA, conversation_id=C1, contact=CONTACT, at=at(1))
    before = (file_of(store), store._database.wal_bytes)
    for contact in (CONTACT, None):
        assert store.register_conversation(agent=ANA, conversation_id=C1, contact=contact, at=at(2)) == first
    assert (file_of(store), store._database.wal_bytes) == before
    again = reopened(store)
    assert again.conversation(ANA, C1) == first
    assert again.conversation(BO, C1) is None
    again.close()


@pytest.mark.parametrize("stored", [CONTACT, None])
def test_another_contact_is_refused_and_nothing_written(store: DirectoryStore, stored: ContactId | None) -> None:
    store.register_conversation(agent=ANA, conversation_id=C1, contact=stored, at=at(1))
    before = file_of(store)
    with pytest.raises(ContactMismatchError, match="email:bo"):
        store.register_conversation(agent=ANA, conversation_id=C1, contact=ContactId("email:bo"), at=at(2))
    assert file_of(store) == before


def test_the_same_id_under_two_agents_is_two_conversations(store: DirectoryStore) -> None:
    store.register_conversation(agent=ANA, conversation_id=C1, contact=CONTACT, at=at(1))
    store.register_conversation(agent=BO, conversation_id=C1, contact=None, at=at(2))
    assert [record.contact for record in store.conversations(None, 9, 0)] == [CONTACT, None]
    assert [record.agent for record in store.conversations(BO, 9, 0)] == [BO]


def test_conversations_are_listed_oldest_first_in_parts(store: DirectoryStore) -> None:
    for number in (3, 1, 2, 0, 4):
        store.register_conversation(
            agent=ANA, conversation_id=ConversationId(f"c{number}"), contact=None, at=at(number)
        )
    store.register_conversation(agent=ANA, conversation_id=C2, contact=None, at=at(2))
    again = reopened(store)
    listed = [record.conversation_id for record in again.conversations(None, 100, 0)]
    assert listed == ["c0", "c1", "c2", C2, "c3", "c4"]
    assert [record.conversation_id for record in again.conversations(ANA, 2, 3)] == listed[3:5]
    assert again.conversations(ANA, 2, 9) == []
    again.close()


def test_a_write_that_fails_leaves_memory_and_file_as_they_were(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save_agent(name=ANA, agent_id="id-1", options="{}", at=at(1))
    before = (file_of(store), list(store.agents()), store.conversations(None, 9, 0))

    def fails(*_: object) -> None:
        raise duckdb.IOException("IO Error: injected")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "_write", fails)
        with pytest.raises(StorageError, match="injected"):
            store.save_agent(name=ANA, agent_id="id-1", options='{"n": 1}', at=at(2))
        with pytest.raises(StorageError, match="injected"):
            store.save_agent(name=BO, agent_id="id-2", options="{}", at=at(2))
        with pytest.raises(StorageError, match="injected"):
            store.register_conversation(agent=ANA, conversation_id=C1, contact=None, at=at(2))
    assert (file_of(store), list(store.agents()), store.conversations(None, 9, 0)) == before
    reopened(store).close()


def test_a_file_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "directory.duckdb"
    Database.open(path, "conversation").close()
    with pytest.raises(FileCorruptError, match="0001_conversation"):
        DirectoryStore.open(path)
    path.unlink()
    path.write_bytes(b"garbage" * 1_000)
    with pytest.raises(FileCorruptError, match="directory"):
        DirectoryStore.open(path)


def activate(store: DirectoryStore, after: int = 0, seconds: int = 1) -> ConversationRecord:
    return store.activate_conversation(
        agent=ANA, conversation_id=C1, contact=None, node="node", after=after, at=at(seconds)
    )


def note(store: DirectoryStore, epoch: int, *kinds: str, next_sweep_at: datetime | None = None) -> None:
    store.note_conversation(
        agent=ANA,
        conversation_id=C1,
        epoch=epoch,
        note=ConversationNote(messages=4, open_turns=1, outbox_pending=2, outbox_parked=3, drained_kinds=kinds),
        next_sweep_at=next_sweep_at,
        at=at(9),
    )


def test_every_activation_gets_a_higher_epoch_also_after_a_reopening_and_above_what_the_file_has_seen(
    store: DirectoryStore,
) -> None:
    assert [activate(store).epoch for _ in range(3)] == [1, 2, 3]
    again = reopened(store)
    assert activate(again).epoch == 4
    assert activate(again, after=9).epoch == 10
    again.close()


def test_only_the_newest_activation_notes_what_it_has_stored(store: DirectoryStore) -> None:
    older, newer = activate(store), activate(store)
    note(store, older.epoch, "index")
    assert store.conversation(ANA, C1) == newer
    note(store, newer.epoch, "index")
    again = reopened(store)
    noted = again.conversation(ANA, C1)
    assert noted is not None
    assert (noted.has_file, noted.messages, noted.open_turns, noted.outbox_pending, noted.outbox_parked) == (
        True, 4, 1, 2, 3,
    )  # fmt: skip
    again.close()


def test_a_conversation_is_due_for_delivery_unless_its_last_process_had_delivered_all(store: DirectoryStore) -> None:
    kinds = frozenset({"index", "extract"})

    def due(seconds: int = 10, wanted: frozenset[str] = kinds) -> int:
        return len(store.undelivered(wanted, at(seconds)))

    epoch = activate(store).epoch
    assert due() == 0  # it has nothing yet
    store.mark_stored(agent=ANA, conversation_id=C1, contact=None, at=at(2))
    assert due() == 1  # live, or killed: nobody knows
    note(store, epoch, "index", "extract")
    assert due() == 0
    assert due(wanted=kinds | {"later"}) == 1
    note(store, epoch, "index", next_sweep_at=at(60))
    assert (due(59), due(60)) == (0, 1)
    store.postpone_sweep(agent=ANA, conversation_id=C1, next_sweep_at=at(75))
    activate(store)  # a sweep that fails has activated it
    assert (due(74), due(75)) == (0, 1)
    epoch = activate(store).epoch
    note(store, epoch, "index", next_sweep_at=at(90))
    noted = store.conversation(ANA, C1)
    assert noted is not None and noted.sweeps == 3
    note(store, epoch, "index", "extract")
    noted = store.conversation(ANA, C1)
    assert noted is not None and (noted.sweeps, noted.next_sweep_at) == (0, None)


def test_the_contact_of_a_conversation_found_again_is_the_one_in_its_file(store: DirectoryStore) -> None:
    activate(store)
    store.mark_stored(agent=ANA, conversation_id=C1, contact=CONTACT, at=at(2))
    again = reopened(store)
    assert again.register_conversation(agent=ANA, conversation_id=C1, contact=CONTACT, at=at(3)).contact == CONTACT
    assert again.contacts() == [CONTACT]
    again.close()


def test_the_newest_runs_of_a_job_are_kept_and_the_oldest_go(store: DirectoryStore) -> None:
    for number in range(KEPT_JOB_RUNS + 5):
        run = JobRun(run_id=f"r{number}", job="sweep", started_at=at(number), ended_at=at(number), counts="{}")
        store.add_job_run(run=run)
    store.add_job_run(run=JobRun(run_id="x", job="other", started_at=at(0), ended_at=at(0), counts="{}", error="e"))
    kept = store.job_runs("sweep", 1_000)
    assert [run.run_id for run in kept] == [f"r{number}" for number in range(KEPT_JOB_RUNS + 4, 4, -1)]
    assert [run.error for run in store.job_runs(None, 1_000) if run.job == "other"] == ["e"]
