"""What the clients of a campaign were told: the promises that the checker holds against the files."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from perdure.storage.records import Reply

from .plans import Plan

TurnKind = Literal["send", "stream", "driver"]
Count = Literal[
    "acked_lost",
    "acked_memories_lost",
    "duplicates",
    "finished_tools_rerun",
    "index_differences",
    "not_found",
    "stale_found",
    "unopenable",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise, and the number of the result that counts it."""

    count: Count
    text: str


@dataclass(slots=True, kw_only=True)
class ClientTurn:
    """A turn as its client knows it; clients note it before they send it."""

    turn_id: str
    conversation_id: str
    client: int
    kind: TurnKind
    plan: Plan
    text: str
    """No other turn has the same."""
    reply: Reply | None = None
    """Once it is acknowledged."""
    acked_at_ns: int = 0
    """`time.monotonic_ns`."""
    failure: str | None = None
    """The stored reason of a turn that ended without a reply."""


@dataclass(slots=True, kw_only=True)
class ClientNote:
    """A line that a client itself added to a conversation's notes."""

    conversation_id: str
    text: str
    is_acked: bool = False


@dataclass(slots=True)
class Journal:
    """Filled by all client threads."""

    turns: list[ClientTurn] = field(default_factory=list)
    """Those of one client in the order in which it sent them."""
    notes: list[ClientNote] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """What the clients themselves noticed."""
    errors: Counter[str] = field(default_factory=Counter)
    """Errors that a client met and got over by repeating the call, by type."""
    repeats: int = 0
    """Finished turns that were repeated at once."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, turn: ClientTurn) -> None:
        """A turn goes out."""
        with self._lock:
            self.turns.append(turn)

    def acknowledged(self, turn: ClientTurn, reply: Reply) -> None:
        """Its reply is there."""
        turn.acked_at_ns = time.monotonic_ns()
        turn.reply = reply

    def noted(self, note: ClientNote) -> None:
        """A line for the notes goes out."""
        with self._lock:
            self.notes.append(note)

    def met(self, error: Exception) -> None:
        """An error that is to be got over."""
        with self._lock:
            self.errors[type(error).__name__] += 1

    def repeated(self) -> None:
        """A finished turn was repeated."""
        with self._lock:
            self.repeats += 1

    def violated(self, count: Count, text: str) -> None:
        """A promise was broken before a client's eyes."""
        with self._lock:
            self.violations.append(Violation(count=count, text=text))


def differences(given: Reply, again: Reply) -> str:
    """How a repeat's reply differs from the first one; empty when it says the same."""
    before, after = (
        (reply.turn_id, reply.text, [(call.call_id, call.status) for call in reply.tool_calls])
        for reply in (given, again)
    )
    return "" if before == after else f"{before} became {after}"
