"""The directory: the singleton that knows the runtime's agents and conversations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..storage.agent_options import AgentOptions
from ..storage.directory_store import AgentRecord, ConversationRecord, DirectoryStore
from ..storage.layout import directory_path
from ..storage.records import AgentName, ContactId, ConversationId
from ..storage.settings import Settings
from .opened import Opened


class Directory:
    """Owner of `directory.duckdb`. Calls come one at a time; each is durable on return and may be repeated."""

    def __init__(self, data_dir: Path, settings: Settings) -> None:
        path = directory_path(data_dir)
        self._store = Opened(lambda: DirectoryStore.open(path), settings.conversations.lock_wait_s)

    def __repr__(self) -> str:
        return "Directory()"

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

    def agents(self) -> Sequence[AgentRecord]:
        """All agents, by name."""
        with self._store.use() as store:
            return store.agents()

    def register_conversation(
        self, agent: AgentName, conversation_id: ConversationId, contact: ContactId | None
    ) -> None:
        """Note a conversation and its contact.

        Raises:
            ContactMismatchError: It is known with another contact.
        """
        with self._store.use() as store:
            store.register_conversation(
                agent=agent, conversation_id=conversation_id, contact=contact, at=datetime.now(UTC)
            )

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

    def note(
        self, agent: AgentName, conversation_id: ConversationId, epoch: int, messages: int, open_turns: int
    ) -> None:
        """Note what an activation has stored."""
        with self._store.use() as store:
            store.note_conversation(
                agent=agent,
                conversation_id=conversation_id,
                epoch=epoch,
                messages=messages,
                open_turns=open_turns,
                at=datetime.now(UTC),
            )

    def node_id(self) -> str:
        """Ray's id of the node that holds the data directory: owners of files stay on it."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def conversations(self, agent: AgentName | None, limit: int, offset: int) -> Sequence[ConversationRecord]:
        """Conversations, of one agent or of all."""
        with self._store.use() as store:
            return store.conversations(agent=agent, limit=limit, offset=offset)

    def pid(self) -> int:
        """This process."""
        return os.getpid()
