"""The events of a streamed turn, as a driver sees them. Each has a `type`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ...storage.records import CallStatus, Reply, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """More of the reply's text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call is stored and starts now."""

    type: ClassVar[Literal["tool_started"]] = "tool_started"
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool call has ended and its result is stored."""

    type: ClassVar[Literal["tool_finished"]] = "tool_finished"
    call: ToolCall
    status: CallStatus
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """The text so far is void: the turn was continued after a crash and its model said something else."""

    type: ClassVar[Literal["restarted"]] = "restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The turn is stored. The text after the last `Restarted` is this reply's."""

    type: ClassVar[Literal["finished"]] = "finished"
    reply: Reply


Event = Text | ToolStarted | ToolFinished | Restarted | Finished
