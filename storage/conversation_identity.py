"""Which conversation a file holds: written once, compared at every opening."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from .database import Database, to_stored
from .errors import ContactMismatchError, FileCorruptError
from .records import AgentName, ContactId, ConversationId, ConversationIdentity


def identified(database: Database, identity: ConversationIdentity, created_at: datetime) -> ConversationIdentity:
    """The identity that stands in the file; a new file gets the one given.

    Raises:
        FileCorruptError: It holds another conversation.
        ContactMismatchError: Its contact is another.
    """
    rows = database.query("SELECT agent, conversation_id, contact FROM conversation")
    if not rows:
        with database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO conversation (agent, conversation_id, contact, created_at, notes,"
                " recent_changes, epoch) VALUES (?, ?, ?, ?, '', '[]', 0)",
                [identity.agent, identity.conversation_id, identity.contact, to_stored(created_at)],
            )
        return identity
    agent, conversation_id, contact = rows[0]
    stored = ConversationIdentity(
        agent=AgentName(cast(str, agent)),
        conversation_id=ConversationId(cast(str, conversation_id)),
        contact=cast("ContactId | None", contact),
    )
    if (stored.agent, stored.conversation_id) != (identity.agent, identity.conversation_id):
        raise FileCorruptError(
            str(database.path),
            f"holds conversation {stored.conversation_id!r} of agent {stored.agent!r}, not"
            f" {identity.conversation_id!r} of {identity.agent!r}; put it back under its own name",
        )
    if identity.contact is not None and identity.contact != stored.contact:
        raise ContactMismatchError(stored.conversation_id, stored.contact, identity.contact)
    return stored
