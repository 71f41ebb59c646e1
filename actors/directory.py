"""The directory: the singleton that knows the runtime's agents, contacts and conversations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..jobs.outbox import INDEX, consumer_kinds, index_kind
from ..storage.agent_options import AgentOptions
from ..storage.directory_records import AgentRecord, ConversationNote, ConversationRecord, JobRun
from ..storage.errors import SettingsError
from ..storage.layout import directory_path, index_path
from ..storage.message_generation import message_generation
from ..storage.records import AgentName, ContactId, ConversationId
from .live_marks import live_folder
from .metrics_export import MetricsExport
from .metrics_report import MetricsReport
from .opened import Opened
from .outbox_sweep import OutboxSweep
from .placement import RuntimePlace

if TYPE_CHECKING:
    from ..storage.directory_store import DirectoryStore

MOST_DOUBLINGS = 6
"""Of the time between sweeps of one conversation whose consumer takes nothing: about an hour by default."""


class Directory:
    """Owner of `directory.duckdb`. Calls come one at a time; each is durable on return and may be repeated.

    All but `count`: what it is told is kept by Ray alone, and counted again when it comes again.
    """

    def __init__(self, place: RuntimePlace) -> None:
        self._path = directory_path(place.data_dir)
        self._store = Opened(self._open, place.settings.conversations.lock_wait_s)
        self._sweep_s = place.settings.outbox.sweep_s
        self._kinds: frozenset[str] = frozenset()
        with suppress(SettingsError):  # `connect` refuses it; a constructor never raises
            self._kinds = consumer_kinds(place.settings.outbox)
        self._metrics = MetricsExport(live_folder(place.data_dir), place.settings.ray.metrics_interval_s)
        self._metrics.start()
        self._data_dir = place.data_dir
        if self._kinds:
            OutboxSweep(place).start()

    def __repr__(self) -> str:
        return f"Directory({self._data_dir})"

    def open_agent(self, name: AgentName, given: dict[str, Any]) -> tuple[AgentRecord, AgentOptions]:
        """Create an agent, or change the options given of an existing one.

        Args:
            given: Fields of `AgentOptions`; those left out keep their value.
        """
        unknown = set(given) - {option.name for option in fields(AgentOptions)}
        if unknown:
            raise TypeError(f"unknown options {sorted(unknown)}")
        with self._store.use() as store:
            known = store.agent(name)
            before = AgentOptions.from_json(known.options) if known else AgentOptions()
            options = replace(before, **given)
            record = store.save_agent(
                name=name,
                agent_id=known.agent_id if known else str(uuid4()),
                options=options.to_json(),
                at=datetime.now(UTC),
            )
            return record, options

    def has_memory(self, name: AgentName) -> bool:
        """Has an agent a long-term memory?"""
        with self._store.use() as store:
            return _has_memory(store, name)

    def agents(self) -> Sequence[AgentRecord]:
        """All agents, by name."""
        with self._store.use() as store:
            return store.agents()

    def register_conversation(
        self, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None
    ) -> ContactId | None:
        """Note a conversation and its contact; who that is, where it was known already.

        Raises:
            ContactMismatchError: It is known with another contact.
        """
        with self._store.use() as store:
            store.register_conversation(
                agent=agent, conversation_id=conversation_id, contact=contact, at=datetime.now(UTC)
            )
            record = store.conversation(agent, conversation_id)
            return contact if record is None else record.contact

    def activate(
        self, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None, node: str, after: int
    ) -> ConversationRecord:
        """The next epoch of a conversation, for a process that is about to open its file.

        Args:
            after: An epoch that the file has seen.

        Raises:
            ContactMismatchError: It is known with another contact.
        """
        with self._store.use() as store:
            return store.activate_conversation(
                agent=agent,
                conversation_id=conversation_id,
                contact=contact,
                node=node,
                after=after,
                at=datetime.now(UTC),
            )

    def mark_stored(self, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None) -> None:
        """Note that a conversation has a file, which says who its contact is."""
        with self._store.use() as store:
            store.mark_stored(agent=agent, conversation_id=conversation_id, contact=contact, at=datetime.now(UTC))

    def note(self, agent: AgentName, conversation_id: ConversationId, epoch: int, note: ConversationNote) -> None:
        """Note what an activation has stored as it ends."""
        now = datetime.now(UTC)
        with self._store.use() as store:
            known = store.conversation(agent, conversation_id)
            is_drained = self._kinds_of(store, agent) <= set(note.drained_kinds)
            store.note_conversation(
                agent=agent,
                conversation_id=conversation_id,
                epoch=epoch,
                note=note,
                next_sweep_at=None if is_drained else now + self._pause_before_sweep(known),
                at=now,
            )

    def undelivered(self) -> Sequence[ConversationRecord]:
        """Conversations that may hold messages which a consumer has not had."""
        if not self._kinds:
            return []
        with self._store.use() as store:
            known = store.undelivered(self._current_kinds(), datetime.now(UTC))
            return [record for record in known if not self._kinds_of(store, record.agent) <= set(record.drained_kinds)]

    def postpone_sweep(self, agent: AgentName, conversation_id: ConversationId) -> None:
        """Note that a conversation could not be swept: each time it is left alone for longer."""
        with self._store.use() as store:
            pause = self._pause_before_sweep(store.conversation(agent, conversation_id))
            store.postpone_sweep(agent=agent, conversation_id=conversation_id, next_sweep_at=datetime.now(UTC) + pause)

    def _pause_before_sweep(self, known: ConversationRecord | None) -> timedelta:
        return timedelta(seconds=self._sweep_s * 2.0 ** min(known.sweeps if known else 0, MOST_DOUBLINGS))

    def add_job_run(self, run: JobRun) -> None:
        """Note a run of a job."""
        with self._store.use() as store:
            store.add_job_run(run=run)

    def job_runs(self, job: str | None, limit: int) -> Sequence[JobRun]:
        """The newest runs of a job, or of all, newest first."""
        with self._store.use() as store:
            return store.job_runs(job, limit)

    def count(self, report: MetricsReport) -> None:
        """Export what a conversation's process has counted."""
        self._metrics.add(report)

    def contacts(self) -> Sequence[ContactId]:
        """The contacts of all conversations."""
        with self._store.use() as store:
            return store.contacts()

    def node_id(self) -> str:
        """Ray's id of the node that holds the data directory: owners of files stay on it."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def conversations(self, agent: AgentName | None, limit: int, offset: int) -> Sequence[ConversationRecord]:
        """Conversations, of one agent or of all."""
        with self._store.use() as store:
            return store.conversations(agent=agent, limit=limit, offset=offset)

    def conversations_of_id(self, conversation_id: ConversationId) -> Sequence[ConversationRecord]:
        """The conversations of that id, of whichever agent."""
        with self._store.use() as store:
            return store.conversations_of_id(conversation_id)

    def pid(self) -> int:
        """This process."""
        return os.getpid()

    def _kinds_of(self, store: DirectoryStore, agent: AgentName) -> frozenset[str]:
        """Who follows an agent's conversations: those of one without memory are not indexed."""
        return self._current_kinds() if _has_memory(store, agent) else self._kinds - {INDEX}

    def _current_kinds(self) -> frozenset[str]:
        """All that follow conversations, as their cursors know them."""
        generation = message_generation(index_path(self._data_dir)) if INDEX in self._kinds else None
        return self._kinds if generation is None else self._kinds - {INDEX} | {index_kind(generation)}

    def _open(self) -> DirectoryStore:
        from ..storage.directory_store import DirectoryStore  # a driver loads this class too, and opens no database

        return DirectoryStore.open(self._path)


def _has_memory(store: DirectoryStore, name: AgentName) -> bool:
    known = store.agent(name)
    return known is None or AgentOptions.from_json(known.options).memory
