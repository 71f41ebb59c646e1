"""What the directory keeps of agents and conversations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from perdure.storage.database import Database
from perdure.storage.directory_store import DirectoryStore
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
