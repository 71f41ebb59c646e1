"""Durable actors for agent conversations: where turns run, and how they are reached.

The names below are loaded on first use, so that the actors' processes, which import this package too, stay
small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..jobs.conversation import ImportedMessage as ImportedMessage
    from .client.agent import Agent as Agent
    from .client.conversation import ConversationHandle as ConversationHandle
    from .client.driver_turn import DriverTurn as DriverTurn
    from .client.driver_turn import ToolResult as ToolResult
    from .client.pending import PendingReply as PendingReply
    from .client.runtime import Runtime as Runtime
    from .client.runtime import connect as connect
    from .tool_context import ToolContext as ToolContext
    from .tool_definition import Tool as Tool
    from .tool_definition import tool as tool

_HOMES = {
    "Agent": ".client.agent",
    "ConversationHandle": ".client.conversation",
    "DriverTurn": ".client.driver_turn",
    "ImportedMessage": "..jobs.conversation",
    "PendingReply": ".client.pending",
    "Runtime": ".client.runtime",
    "Tool": ".tool_definition",
    "ToolContext": ".tool_context",
    "ToolResult": ".client.driver_turn",
    "connect": ".client.runtime",
    "tool": ".tool_definition",
}

__all__ = [
    "Agent",
    "ConversationHandle",
    "DriverTurn",
    "ImportedMessage",
    "PendingReply",
    "Runtime",
    "Tool",
    "ToolContext",
    "ToolResult",
    "connect",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
