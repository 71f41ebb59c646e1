"""`perdure agents` and `perdure conversations`: what a data directory knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...storage.agent_options import AgentOptions
from ...storage.directory_records import ConversationRecord
from ...storage.records import AgentName, ConversationId
from ..client.live import LiveConversation
from ..client.runtime import Runtime
from .known import EVERY, connect_to_existing, known_agent
from .output import Output, amount, moment, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation as far as it can be told without waking it."""

    record: ConversationRecord
    live: LiveConversation | None

    @property
    def last_activity(self) -> datetime:
        """When it was last used, UTC."""
        if self.live is not None:
            return max(self.record.last_activity, datetime.fromtimestamp(self.live.last_used, UTC))
        return self.record.last_activity

    @property
    def is_exact(self) -> bool:
        """Are the counts those of now? A process that was killed has told nobody of its last ones."""
        if self.live is not None:
            return self.live.inspection is not None
        return self.record.outbox_pending is not None or self.record.epoch == 0

    @property
    def messages(self) -> int:
        """Stored messages; at least, where it is not exact."""
        if self.live is not None and self.live.inspection is not None:
            return self.live.inspection.messages
        return self.record.messages

    @property
    def shown_messages(self) -> int | str:
        """Stored messages for a table."""
        return self.messages if self.is_exact else f"{self.messages:,}+"

    @property
    def undelivered(self) -> int | None:
        """Messages that some consumer of the outbox has not had; None where nobody knows."""
        if self.live is not None:
            return None if self.live.inspection is None else max(self.live.inspection.outbox.values(), default=0)
        return self.record.outbox_pending

    @property
    def parked(self) -> int | None:
        """Messages that a consumer could not take."""
        if self.live is not None:
            return None if self.live.inspection is None else len(self.live.inspection.parked)
        return self.record.outbox_parked if self.is_exact else None

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "conversation_id": self.record.conversation_id,
            "agent": self.record.agent,
            "contact": self.record.contact,
            "messages": self.messages,
            "is_exact": self.is_exact,
            "state": "live" if self.live else "dormant",
            "created_at": self.record.created_at,
            "last_activity": self.last_activity,
            "undelivered": self.undelivered,
            "parked": self.parked,
        }


def conversation_rows(runtime: Runtime, records: Iterable[ConversationRecord]) -> list[ConversationRow]:
    """The conversations, the last used first; none is woken."""
    live = live_by_id(runtime)
    rows = [ConversationRow(record=record, live=live.get((record.agent, record.conversation_id))) for record in records]
    return sorted(rows, key=lambda row: row.last_activity, reverse=True)


def live_by_id(runtime: Runtime) -> Mapping[tuple[AgentName, ConversationId], LiveConversation]:
    """The live conversations of this node."""
    return {(one.agent, one.conversation_id): one for one in runtime.live_conversations()}


def list_conversations(data_dir: Path | None, agent: str | None, limit: int, output: Output) -> None:
    """Print the conversations, the last used first."""
    with connect_to_existing(data_dir) as runtime:
        owner = None if agent is None else known_agent(runtime, agent).name
        rows = conversation_rows(runtime, runtime.conversations(owner, limit=EVERY))
    if output.as_json:
        output.json([row.as_json() for row in rows[:limit]])
        return
    headings = ("conversation", "agent", "contact", "messages", "state", "last activity", "undelivered", "parked")
    output.table(
        headings,
        [
            (
                row.record.conversation_id,
                row.record.agent,
                row.record.contact or "",
                row.shown_messages,
                "live" if row.live else "dormant",
                moment(row.last_activity),
                row.undelivered,
                row.parked,
            )
            for row in rows[:limit]
        ],
    )
    if len(rows) > limit:
        output.note(f"{limit:,} of {amount(len(rows), 'conversation')}; --limit shows more")
    if not all(row.is_exact for row in rows[:limit]):
        output.note("+ and ?: the process was killed, and what it stored last is known to its file only")


def list_agents(data_dir: Path | None, output: Output) -> None:
    """Print the agents, by name."""
    with connect_to_existing(data_dir) as runtime:
        agents = runtime.agents()
        owned = Counter(record.agent for record in runtime.conversations(limit=EVERY))
    every = [(agent, AgentOptions.from_json(agent.options)) for agent in agents]
    if output.as_json:
        output.json(
            [
                {
                    "name": agent.name,
                    "agent_id": agent.agent_id,
                    "model": options.model,
                    "system_prompt": options.system_prompt,
                    "memory": options.memory,
                    "tools": [tool.name for tool in options.tools],
                    "conversations": owned[agent.name],
                    "version": agent.version,
                    "created_at": agent.created_at,
                    "updated_at": agent.updated_at,
                }
                for agent, options in every
            ]
        )
        return
    output.table(
        ("agent", "model", "tools", "conversations", "changed", "system prompt"),
        [
            (
                agent.name,
                one_line(options.model or "embedded", 40),
                one_line(", ".join(tool.name for tool in options.tools), 60),
                owned[agent.name],
                moment(agent.updated_at),
                one_line(options.system_prompt, 60),
            )
            for agent, options in every
        ],
    )
