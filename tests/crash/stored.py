"""What the files of a data directory hold, read directly once the runtime has let go of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.directory_store import DirectoryStore
from perdure.storage.errors import FileInUseError
from perdure.storage.layout import conversation_path, directory_path
from perdure.storage.records import AgentName, ConversationId, ConversationIdentity, StoredMessage, Turn, TurnId

RELEASE_S = 30.0
"""How long the last process of a closed runtime may hold a file."""
ALL_MESSAGES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConversation:
    """One conversation's file."""

    messages: Sequence[StoredMessage]
    turns: Mapping[str, Turn]
    """Those that were asked for, and are there."""
    notes: Sequence[str]
    """Line by line."""


def read_conversation(
    data_dir: Path, agent: AgentName, conversation_id: str, turn_ids: Sequence[str]
) -> StoredConversation | None:
    """A conversation as its file has it; None when there is no file.

    Raises:
        StorageError: The file cannot be opened or read.
    """
    identity = ConversationIdentity(agent=agent, conversation_id=ConversationId(conversation_id))
    path = conversation_path(data_dir, agent, identity.conversation_id)
    if not path.exists():
        return None
    store = _open_when_released(path, identity)
    try:
        turns = {turn_id: turn for turn_id in turn_ids if (turn := store.turn(TurnId(turn_id))) is not None}
        return StoredConversation(
            messages=store.page_before(None, ALL_MESSAGES),
            turns=turns,
            notes=store.working_state().notes.splitlines(),
        )
    finally:
        store.close()


def registered_conversations(data_dir: Path, agent: AgentName) -> frozenset[str]:
    """Ids of the conversations that the directory knows.

    Raises:
        StorageError: Its file cannot be opened or read.
    """
    directory = DirectoryStore.open(directory_path(data_dir))
    try:
        known = directory.conversations(agent=agent, limit=ALL_MESSAGES, offset=0)
        return frozenset(record.conversation_id for record in known)
    finally:
        directory.close()


def _open_when_released(path: Path, identity: ConversationIdentity) -> ConversationStore:
    limit = time.monotonic() + RELEASE_S
    while True:
        try:
            return ConversationStore.open(path, identity, datetime.now(UTC))
        except FileInUseError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)
