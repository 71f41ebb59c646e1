"""What a tool may know of the call it runs for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """Given to a tool that has a parameter of this type; the model does not see that parameter."""

    agent: str
    conversation_id: str
    contact: str | None
    turn_id: str
    call_id: str
    """(turn_id, call_id) is unique: an idempotency key for what the tool does outside."""
    _opened: list[str] = field(default_factory=list, repr=False)
    _closed: list[str] = field(default_factory=list, repr=False)

    def open_session(self, session_id: str) -> None:
        """Report a browser session that stays open after the call; an interrupted turn is told of it."""
        self._opened.append(session_id)

    def close_session(self, session_id: str) -> None:
        """Report that a browser session was closed."""
        self._closed.append(session_id)
