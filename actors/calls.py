"""What crosses between a driver and a conversation's actor."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache

from ..jobs.chat_model import ToolSpec
from ..jobs.turn import AgentProfile
from ..storage.agent_options import AgentOptions, ToolRecord
from ..storage.outbox_records import ParkedMessage
from ..storage.records import AgentName, ContactId, ConversationIdentity, TurnId, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """An agent as a driver knows it. Of two, an actor goes by the one with the higher version."""

    name: AgentName
    agent_id: str
    version: int
    options: AgentOptions
    code: Mapping[str, bytes] = field(default_factory=dict)
    """Pickled functions of tools that have no importable place, by tool name; they come with each call."""

    @property
    def profile(self) -> AgentProfile:
        """The agent as a turn needs it."""
        return AgentProfile(
            name=self.name,
            model=self.options.model,
            system_prompt=self.options.system_prompt,
            tools=tuple(_spec(record) for record in self.options.tools),
            memory_id=self.agent_id if self.options.memory else None,
        )


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls: with every call, since any call may be the one that starts the actor."""

    agent: AgentSnapshot
    contact: ContactId | None

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self.agent, self.contact))

    def __reduce__(self) -> tuple[Callable[[bytes], Caller], tuple[bytes]]:
        # It goes along with every call and hardly ever changes, so both sides do the work once.
        return _caller, (self._pickled,)


@lru_cache(maxsize=16)
def _caller(pickled: bytes) -> Caller:
    agent, contact = pickle.loads(pickled)  # noqa: S301 - Ray pickles all that crosses
    return Caller(agent=agent, contact=contact)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A turn that has not ended."""

    turn_id: TurnId
    state: TurnState
    is_running: bool
    attempts: int
    opened_at: datetime
    touched_at: datetime
    tool_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A live conversation, looked at from outside while it works."""

    identity: ConversationIdentity
    pid: int
    node_id: str
    started_at: datetime
    """When this process took the conversation over, UTC."""
    messages: int
    open_turns: tuple[OpenTurn, ...]
    file: str
    file_bytes: int
    wal_bytes: int
    epoch: int
    """The number of this activation."""
    idle_s: float
    outbox: Mapping[str, int]
    """By consumer: messages that it has not had yet."""
    parked: tuple[ParkedMessage, ...]
    """Messages that a consumer could not take."""


def _spec(record: ToolRecord) -> ToolSpec:
    return ToolSpec(
        name=record.name,
        description=record.description,
        parameters=record.parameters,
        idempotent=record.idempotent,
        timeout_s=record.timeout_s,
    )
