"""The directory's file: the runtime's agents and its conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import cast

from .database import Database, from_stored, to_stored
from .errors import ContactMismatchError
from .records import AgentName, ContactId, ConversationId
from .replay import replayable


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """An agent as it is stored."""

    name: AgentName
    agent_id: str
    """UUID."""
    options: str
    """JSON; see `agent_options.py`."""
    version: int
    """Counted from 1; a change of the options adds one."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRecord:
    """A conversation that the runtime knows."""

    agent: AgentName
    conversation_id: ConversationId
    contact: ContactId | None
    created_at: datetime


class DirectoryStore:
    """The only writer of the directory's file; it keeps all of it in memory for its reads.

    Every write is one transaction, durable on return; see `ConversationStore`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._agents: dict[AgentName, AgentRecord] = {}
        for name, agent_id, options, version, created_at, updated_at in database.query(
            "SELECT name, agent_id, options, version, created_at, updated_at FROM agents ORDER BY name"
        ):
            record = AgentRecord(
                name=AgentName(cast(str, name)),
                agent_id=cast(str, agent_id),
                options=cast(str, options),
                version=cast(int, version),
                created_at=from_stored(cast(datetime, created_at)),
                updated_at=from_stored(cast(datetime, updated_at)),
            )
            self._agents[record.name] = record
        self._conversations: dict[tuple[AgentName, ConversationId], ConversationRecord] = {}
        for agent, conversation_id, contact, created_at in database.query(
            "SELECT agent, conversation_id, contact, created_at FROM conversations"
        ):
            conversation = ConversationRecord(
                agent=AgentName(cast(str, agent)),
                conversation_id=ConversationId(cast(str, conversation_id)),
                contact=cast("ContactId | None", contact),
                created_at=from_stored(cast(datetime, created_at)),
            )
            self._conversations[conversation.agent, conversation.conversation_id] = conversation

    @classmethod
    def open(cls, path: Path) -> DirectoryStore:
        """Open the file, or create it. Raises as `Database.open`."""
        database = Database.open(path, "directory")
        try:
            return cls(database)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def agent(self, name: AgentName) -> AgentRecord | None:
        """An agent by name."""
        return self._agents.get(name)

    def agents(self) -> Sequence[AgentRecord]:
        """All agents, by name."""
        return sorted(self._agents.values(), key=lambda agent: agent.name)

    @replayable
    def save_agent(self, *, name: AgentName, agent_id: str, options: str, at: datetime) -> AgentRecord:
        """Store an agent, or the changed options of a known one; unchanged ones write nothing."""
        known = self._agents.get(name)
        if known is not None and known.options == options:
            return known
        with self._database.transaction() as transaction:
            if known is None:
                record = AgentRecord(
                    name=name, agent_id=agent_id, options=options, version=1, created_at=at, updated_at=at
                )
                transaction.execute(
                    "INSERT INTO agents (name, agent_id, options, version, created_at, updated_at)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    [name, agent_id, options, 1, to_stored(at), to_stored(at)],
                )
            else:
                record = replace(known, options=options, version=known.version + 1, updated_at=at)
                transaction.execute(
                    "UPDATE agents SET options = ?, version = ?, updated_at = ? WHERE name = ?",
                    [options, record.version, to_stored(at), name],
                )
        self._agents[name] = record
        return record

    @replayable
    def register_conversation(
        self, *, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None, at: datetime
    ) -> ConversationRecord:
        """Note a conversation; a known one writes nothing.

        Raises:
            ContactMismatchError: It is known with another contact than given.
        """
        known = self._conversations.get((agent, conversation_id))
        if known is not None:
            if contact is not None and contact != known.contact:
                raise ContactMismatchError(conversation_id, known.contact, contact)
            return known
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO conversations (agent, conversation_id, contact, created_at) VALUES (?, ?, ?, ?)",
                [agent, conversation_id, contact, to_stored(at)],
            )
        record = ConversationRecord(agent=agent, conversation_id=conversation_id, contact=contact, created_at=at)
        self._conversations[agent, conversation_id] = record
        return record

    def conversation(self, agent: AgentName, conversation_id: ConversationId) -> ConversationRecord | None:
        """A conversation that is known."""
        return self._conversations.get((agent, conversation_id))

    def conversations(self, agent: AgentName | None, limit: int, offset: int) -> Sequence[ConversationRecord]:
        """Conversations of an agent, or of all, oldest first."""
        known = [record for record in self._conversations.values() if agent is None or record.agent == agent]
        known.sort(key=lambda record: (record.created_at, record.agent, record.conversation_id))
        return known[offset : offset + limit]
