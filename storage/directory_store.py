"""The directory's file: the runtime's agents, contacts and conversations, and the runs of its jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .directory_records import AgentRecord, ConversationNote, ConversationRecord, JobRun
from .errors import ContactMismatchError
from .records import AgentName, ContactId, ConversationId
from .replay import replayable

KEPT_JOB_RUNS = 100
"""Of each job, the newest."""


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
            " open_turns, outbox_pending, outbox_parked, drained_kinds, sweeps, next_sweep_at FROM conversations"
            " ORDER BY created_at, agent, conversation_id"
        ):
            conversation = _to_conversation(row)
            self._conversations[conversation.agent, conversation.conversation_id] = conversation
        self._contacts = {
            ContactId(cast(str, contact)): from_stored(cast(datetime, created_at))
            for contact, created_at in database.query("SELECT contact, created_at FROM contacts ORDER BY contact")
        }

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
                " last_activity, messages, open_turns, outbox_pending, outbox_parked, drained_kinds, sweeps)"
                " VALUES (?, ?, ?, ?, 0, FALSE, ?, 0, 0, 0, 0, '[]', 0)",
                [agent, conversation_id, contact, to_stored(at), to_stored(at)],
            )
            if contact is not None and contact not in self._contacts:
                _write_contact(transaction, contact, at)
        if contact is not None:
            self._contacts.setdefault(contact, at)
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
        epoch = max(known.epoch, after) + 1
        return self._change(
            replace(known, epoch=epoch, node=node, last_activity=at, outbox_pending=None, drained_kinds=())
        )

    @replayable
    def note_conversation(
        self,
        *,
        agent: AgentName,
        conversation_id: ConversationId,
        epoch: int,
        note: ConversationNote,
        next_sweep_at: datetime | None,
        at: datetime,
    ) -> None:
        """Note what an activation has stored as it ends; one that is not the newest notes nothing.

        Args:
            next_sweep_at: Something is undelivered, and not to be tried again before then.
        """
        known = self._conversations.get((agent, conversation_id))
        if known is None or known.epoch != epoch:
            return
        self._change(
            replace(
                known,
                has_file=True,
                last_activity=at,
                messages=note.messages,
                open_turns=note.open_turns,
                outbox_pending=note.outbox_pending,
                outbox_parked=note.outbox_parked,
                drained_kinds=note.drained_kinds,
                sweeps=known.sweeps + 1 if next_sweep_at else 0,
                next_sweep_at=next_sweep_at,
            )
        )

    @replayable
    def postpone_sweep(self, *, agent: AgentName, conversation_id: ConversationId, next_sweep_at: datetime) -> None:
        """Note that a conversation could not be swept, and is not to be tried again before a moment."""
        known = self._conversations.get((agent, conversation_id))
        if known is not None:
            self._change(replace(known, sweeps=known.sweeps + 1, next_sweep_at=next_sweep_at))

    @replayable
    def mark_stored(
        self, *, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None, at: datetime
    ) -> None:
        """Note that a conversation has a file, which must be there from now on.

        Args:
            contact: As the file says; it decides, where this file was lost and begun anew.
        """
        known = self._conversations[agent, conversation_id]
        if known.has_file:
            return
        self._change(replace(known, has_file=True, contact=contact), contact_seen_at=at)

    @replayable
    def add_job_run(self, *, run: JobRun) -> None:
        """Note a run of a job; the oldest beyond a hundred of its kind go."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO job_runs (run_id, job, started_at, ended_at, counts, error) VALUES (?, ?, ?, ?, ?, ?)",
                [run.run_id, run.job, to_stored(run.started_at), to_stored(run.ended_at), run.counts, run.error],
            )
            transaction.execute(
                "DELETE FROM job_runs WHERE job = ? AND started_at < (SELECT min(started_at) FROM (SELECT started_at"
                " FROM job_runs WHERE job = ? ORDER BY started_at DESC LIMIT ?))",
                [run.job, run.job, KEPT_JOB_RUNS],
            )

    def _change(self, record: ConversationRecord, contact_seen_at: datetime | None = None) -> ConversationRecord:
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE conversations SET contact = ?, epoch = ?, has_file = ?, node = ?, last_activity = ?,"
                " messages = ?, open_turns = ?, outbox_pending = ?, outbox_parked = ?, drained_kinds = ?, sweeps = ?,"
                " next_sweep_at = ? WHERE agent = ? AND conversation_id = ?",
                [
                    record.contact,
                    record.epoch,
                    record.has_file,
                    record.node,
                    to_stored(record.last_activity),
                    record.messages,
                    record.open_turns,
                    record.outbox_pending,
                    record.outbox_parked,
                    json.dumps(record.drained_kinds),
                    record.sweeps,
                    to_stored(record.next_sweep_at) if record.next_sweep_at else None,
                    record.agent,
                    record.conversation_id,
                ],
            )
            new_contact = record.contact if contact_seen_at and record.contact not in self._contacts else None
            if new_contact is not None and contact_seen_at is not None:
                _write_contact(transaction, new_contact, contact_seen_at)
        if new_contact is not None and contact_seen_at is not None:
            self._contacts[new_contact] = contact_seen_at
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

    def conversations_of_id(self, conversation_id: ConversationId) -> Sequence[ConversationRecord]:
        """The conversations of that id, of whichever agent, by agent."""
        found = [record for (_, known), record in self._conversations.items() if known == conversation_id]
        return sorted(found, key=lambda record: record.agent)

    def undelivered(self, kinds: frozenset[str], at: datetime) -> Sequence[ConversationRecord]:
        """Conversations that may hold messages which one of these consumers has not had, the longest unused first.

        Those that are live are among them, and those whose process was killed: nobody has noted what they hold.
        """
        due = [
            record
            for record in self._conversations.values()
            if record.has_file
            and not kinds <= set(record.drained_kinds)
            and (record.next_sweep_at is None or record.next_sweep_at <= at)
        ]
        return sorted(due, key=lambda record: record.last_activity)

    def contacts(self) -> Sequence[ContactId]:
        """The contacts of all conversations."""
        return sorted(self._contacts)

    def job_runs(self, job: str | None, limit: int) -> Sequence[JobRun]:
        """The newest runs of a job, or of all, newest first."""
        return [
            JobRun(
                run_id=cast(str, run_id),
                job=cast(str, name),
                started_at=from_stored(cast(datetime, started_at)),
                ended_at=from_stored(cast(datetime, ended_at)),
                counts=cast(str, counts),
                error=cast("str | None", error),
            )
            for run_id, name, started_at, ended_at, counts, error in self._database.query(
                "SELECT run_id, job, started_at, ended_at, counts, error FROM job_runs WHERE job = ? OR ? IS NULL"
                " ORDER BY started_at DESC, run_id LIMIT ?",
                [job, job, limit],
            )
        ]


def _write_contact(transaction: Transaction, contact: ContactId, at: datetime) -> None:
    transaction.execute("INSERT INTO contacts (contact, created_at) VALUES (?, ?)", [contact, to_stored(at)])


def _to_conversation(row: tuple[object, ...]) -> ConversationRecord:
    (
        agent,
        conversation_id,
        contact,
        created_at,
        epoch,
        has_file,
        node,
        last_activity,
        messages,
        open_turns,
        outbox_pending,
        outbox_parked,
        drained_kinds,
        sweeps,
        next_sweep_at,
    ) = row
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
        outbox_pending=cast("int | None", outbox_pending),
        outbox_parked=cast(int, outbox_parked),
        drained_kinds=tuple(json.loads(cast(str, drained_kinds))),
        sweeps=cast(int, sweeps),
        next_sweep_at=from_stored(cast(datetime, next_sweep_at)) if next_sweep_at is not None else None,
    )
