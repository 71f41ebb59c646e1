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
    epoch: int = 0
    """Number of its newest activation; 0: it never had one."""
    has_file: bool = False
    """It has been stored: its file must be there."""
    node: str | None = None
    """Where its newest activation is, or was."""
    last_activity: datetime
    messages: int = 0
    """As of its last passivation, like the next."""
    open_turns: int = 0


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
        for row in database.query(
            "SELECT agent, conversation_id, contact, created_at, epoch, has_file, node, last_activity, messages,"
            " open_turns FROM conversations ORDER BY created_at, agent, conversation_id"
        ):
            conversation = _to_conversation(row)
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
                "INSERT INTO conversations (agent, conversation_id, contact, created_at, epoch, has_file,"
                " last_activity, messages, open_turns) VALUES (?, ?, ?, ?, 0, FALSE, ?, 0, 0)",
                [agent, conversation_id, contact, to_stored(at), to_stored(at)],
            )
        record = ConversationRecord(
            agent=agent, conversation_id=conversation_id, contact=contact, created_at=at, last_activity=at
        )
        self._conversations[agent, conversation_id] = record
        return record

    @replayable
    def activate_conversation(
        self,
        *,
        agent: AgentName,
        conversation_id: ConversationId,
        contact: ContactId | None,
        node: str,
        after: int,
        at: datetime,
    ) -> ConversationRecord:
        """Hand out the next epoch for an activation on a node; each call hands out a higher one.

        Args:
            after: An epoch that the conversation's file has seen; the new one is higher than that, too, though
                this file may have been put back from an older copy.

        Raises:
            ContactMismatchError: It is known with another contact than given.
        """
        known = self.register_conversation(agent=agent, conversation_id=conversation_id, contact=contact, at=at)
        return self._change(replace(known, epoch=max(known.epoch, after) + 1, node=node, last_activity=at))

    @replayable
    def note_conversation(
        self,
        *,
        agent: AgentName,
        conversation_id: ConversationId,
        epoch: int,
        messages: int,
        open_turns: int,
        at: datetime,
    ) -> None:
        """Note what an activation has stored; an activation that is not the newest notes nothing."""
        known = self._conversations.get((agent, conversation_id))
        if known is not None and known.epoch == epoch:
            self._change(replace(known, has_file=True, messages=messages, open_turns=open_turns, last_activity=at))

    def _change(self, record: ConversationRecord) -> ConversationRecord:
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE conversations SET epoch = ?, has_file = ?, node = ?, last_activity = ?, messages = ?,"
                " open_turns = ? WHERE agent = ? AND conversation_id = ?",
                [
                    record.epoch,
                    record.has_file,
                    record.node,
                    to_stored(record.last_activity),
                    record.messages,
                    record.open_turns,
                    record.agent,
                    record.conversation_id,
                ],
            )
        self._conversations[record.agent, record.conversation_id] = record
        return record

    def conversation(self, agent: AgentName, conversation_id: ConversationId) -> ConversationRecord | None:
        """A conversation that is known."""
        return self._conversations.get((agent, conversation_id))

    def conversations(self, agent: AgentName | None, limit: int, offset: int) -> Sequence[ConversationRecord]:
        """Conversations of an agent, or of all, oldest first."""
        known = [record for record in self._conversations.values() if agent is None or record.agent == agent]
        known.sort(key=lambda record: (record.created_at, record.agent, record.conversation_id))
        return known[offset : offset + limit]


def _to_conversation(row: tuple[object, ...]) -> ConversationRecord:
    agent, conversation_id, contact, created_at, epoch, has_file, node, last_activity, messages, open_turns = row
    return ConversationRecord(
        agent=AgentName(cast(str, agent)),
        conversation_id=ConversationId(cast(str, conversation_id)),
        contact=cast("ContactId | None", contact),
        created_at=from_stored(cast(datetime, created_at)),
        epoch=cast(int, epoch),
        has_file=cast(bool, has_file),
        node=cast("str | None", node),
        last_activity=from_stored(cast(datetime, last_activity)),
        messages=cast(int, messages),
        open_turns=cast(int, open_turns),
    )
