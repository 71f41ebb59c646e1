"""The chat model as a turn needs it: one request, one reply, in one piece or streamed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from operator import attrgetter
from typing import Any, Protocol

from ..storage.records import CallId, Role, ToolCall, Usage

LONGEST_SHOWN_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message as a model sees it."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: CallId | None = None
    """Of a tool message: the call it answers."""
    speaker: str | None = None
    seq: int | None = None
    """Its place in the conversation's history; None for what the runtime adds (notes, summaries …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is offered to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of an object."""
    idempotent: bool = False
    """May it run again when it is not known whether it ran?"""
    timeout_s: float | None = None
    """None: the setting's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What is asked of a model."""

    model: str | None
    """None: the embedded model; else a name that litellm understands, or one of the runtime's own kinds."""
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    timeout_s: float = 120.0

    @property
    def shown_model(self) -> str:
        """The model's name for errors and logs; a script's is long."""
        name = self.model or "embedded"
        return name if len(name) <= LONGEST_SHOWN_NAME else f"{name[:LONGEST_SHOWN_NAME]}…"

    def __reduce__(self) -> tuple[Callable[..., ChatRequest], tuple[object, ...]]:
        # Hundreds of messages go to another process at every round. As columns they take a fifth of the time
        # that slotted dataclasses take by themselves, most of which goes into their construction.
        columns = list(zip(*map(_values, self.messages), strict=True))
        return _chat_request, (self.model, columns, self.tools, self.timeout_s)


_FIELDS = tuple(field.name for field in fields(ChatMessage))
_values = attrgetter(*_FIELDS)
_SETTERS = [getattr(ChatMessage, name).__set__ for name in _FIELDS]


def _chat_request(
    model: str | None, columns: Sequence[Sequence[object]], tools: tuple[ToolSpec, ...], timeout_s: float
) -> ChatRequest:
    count = len(columns[0]) if columns else 0
    messages = tuple(map(ChatMessage.__new__, repeat(ChatMessage, count)))
    for fill, column in zip(_SETTERS, columns, strict=False):  # no columns, where there are no messages
        deque(map(fill, messages, column), maxlen=0)
    return ChatRequest(model=model, messages=messages, tools=tools, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What a model answered."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Their ids are unique within the reply and not empty."""
    usage: Usage
    """Of this call; `model_calls` is 1."""


class ChatModel(Protocol):
    """Answers chat requests. Stateless: any instance may answer any request, and be asked again.

    Raises:
        ModelUnavailableError: It may answer later.
        ModelRequestError: It will not take this request.
    """

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply at once."""
        ...

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply's text in pieces, then the whole `ChatReply`, whose text is the pieces joined."""
        ...
