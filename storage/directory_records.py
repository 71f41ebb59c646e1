"""What the directory's file holds, as records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .records import AgentName, ContactId, ConversationId


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
    outbox_pending: int | None = 0
    """Messages that some consumer has not had yet; None while it is live, or since its process was killed."""
    outbox_parked: int = 0
    """Messages that a consumer could not take."""
    drained_kinds: tuple[str, ...] = ()
    """The consumers that had all of its messages when its process ended; none while it is live."""
    sweeps: int = 0
    """How often in a row its process ended with something undelivered."""
    next_sweep_at: datetime | None = None
    """Not started anew before then only to deliver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationNote:
    """What an activation tells of its conversation."""

    messages: int
    open_turns: int
    outbox_pending: int = 0
    outbox_parked: int = 0
    drained_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run of one of the runtime's jobs."""

    run_id: str
    job: str
    started_at: datetime
    ended_at: datetime
    counts: str
    """JSON: what it did, by name."""
    error: str | None = None
