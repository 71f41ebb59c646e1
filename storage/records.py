"""The records of a conversation: messages, turns and their checkpoints, overlays, working state."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

AgentName = NewType("AgentName", str)
ConversationId = NewType("ConversationId", str)
ContactId = NewType("ContactId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)

Role = Literal["system", "user", "assistant", "tool"]
TurnState = Literal["open", "finished", "failed", "abandoned"]
TurnOwner = Literal["runtime", "driver"]
CallStatus = Literal["succeeded", "failed", "timed_out", "crashed", "unavailable", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's wish to run a tool."""

    call_id: CallId
    """Unique within its turn: (turn_id, call_id) is the identity under which a call runs at most once."""
    name: str
    arguments: str
    """JSON text of an object, as the model wrote it; it may be malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """How a tool call ended, as it is stored."""

    call_id: CallId
    status: CallStatus
    """`unknown`: it was started and no end was recorded, so it may have happened."""
    preview: str
    """The result's text, cut to the preview length."""
    sessions_opened: tuple[str, ...] = ()
    """Ids of browser sessions that the call opened."""
    sessions_closed: tuple[str, ...] = ()
    finished_at: datetime
    """UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a turn cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0
    is_estimated: bool = False
    """True when at least one call's provider reported none and the estimate stands in."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            model_calls=self.model_calls + other.model_calls,
            is_estimated=self.is_estimated or other.is_estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRound:
    """One assistant message that asked for tools, and the results that are in so far."""

    text: str
    """What the model said beside its calls; often empty."""
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...] = ()
    """In order of arrival; a call without a result was started and has not ended, as far as is known."""
    usage: Usage = field(default_factory=Usage)
    """What the model's answer that asked for the calls cost."""
    asked_at: datetime
    """When the calls were committed, UTC."""

    def result(self, call_id: CallId) -> ToolResult | None:
        """The result of a call, if it is in."""
        return next((result for result in self.results if result.call_id == call_id), None)

    @property
    def unfinished(self) -> tuple[ToolCall, ...]:
        """The calls without a result, in the order of the calls."""
        ended = {result.call_id for result in self.results}
        return tuple(call for call in self.calls if call.call_id not in ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a turn that has not ended has done so far."""

    turn_id: TurnId
    rounds: tuple[ToolRound, ...]
    touched_at: datetime
    """When its last step was committed, UTC."""

    @property
    def open_sessions(self) -> tuple[str, ...]:
        """Browser sessions opened and not closed, in the order they were opened."""
        sessions: dict[str, None] = {}
        for tool_round in self.rounds:
            for result in tool_round.results:
                sessions.update(dict.fromkeys(result.sessions_opened))
                for session in result.sessions_closed:
                    sessions.pop(session, None)
        return tuple(sessions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to be stored; its place is given when it is appended."""

    message_id: MessageId
    role: Role
    content: str
    speaker: str | None = None
    """Who said it, where a role is shared by several people."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message: the calls it asked for; each has a tool message after it."""
    call_id: CallId | None = None
    """Of a tool message: the call it answers."""
    tool_name: str | None = None
    status: CallStatus | None = None
    """Of a tool message: how the call ended."""
    turn_id: TurnId | None = None
    """The turn it belongs to; None for imported messages."""
    tokens: int
    """Estimated."""
    created_at: datetime
    """When it was said, UTC; imported messages keep their own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage(Message):
    """A message in its place."""

    seq: int
    """Its place in the conversation, counted from 0; the only order there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A summary that stands in the model's view for a range of messages."""

    overlay_id: str
    from_seq: int
    to_seq: int
    """Inclusive."""
    from_created_at: datetime
    to_created_at: datetime
    message_count: int
    summary: str
    tokens: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """A tool call of a finished turn; its result is in the conversation's history."""

    call_id: CallId
    name: str
    arguments: str
    status: CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a turn answered; stored with the turn, so that a repeat gets the same."""

    turn_id: TurnId
    """The turn that answered: another one than asked for, when that one was taken over."""
    text: str
    """All that the model said in the turn; the texts of several rounds are separated by a blank line."""
    tool_calls: tuple[CallSummary, ...] = ()
    usage: Usage = field(default_factory=Usage)
    resumed: bool = False
    """The turn went on from results that were stored before an interruption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn's record."""

    turn_id: TurnId
    state: TurnState
    owner: TurnOwner
    """Who runs its model: the runtime (`send`, `stream`) or the driver's own loop (`begin_turn`)."""
    text_digest: str
    """SHA-256 of the user's text, hexadecimal."""
    user_seq: int
    """The place of its user message."""
    opened_at: datetime
    attempted_at: datetime
    """When an attempt at it last began or ended, UTC."""
    ended_at: datetime | None = None
    attempts_begun: int
    attempts_ended: int
    """Attempts whose end was recorded; the difference, less one that is running, died with their process."""
    reply: Reply | None = None
    error: str | None = None
    """Why it failed."""
    absorbed_by: TurnId | None = None
    """The turn that took over its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingState:
    """What a conversation's model writes for itself."""

    notes: str = ""
    ongoing_task: str | None = None
    recent_changes: tuple[str, ...] = ()
    """Ids of the newest changes that a driver made, so that a repeated one is made once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationIdentity:
    """Which conversation a file holds."""

    agent: AgentName
    conversation_id: ConversationId
    contact: ContactId | None = None
