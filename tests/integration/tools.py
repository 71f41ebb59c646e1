"""Tools for the tests; each writes its effects to a log that is on disk before it returns."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from perdure.actors import ToolContext, tool


def note_effect(log: str, effect: str) -> None:
    """Append a line durably."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(effect + "\n")
        file.flush()
        os.fsync(file.fileno())


def effects(log: Path) -> list[str]:
    """The lines of a log."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@tool
def book(log: str, what: str, context: ToolContext, pause_s: float = 0.0) -> str:
    """Book something.

    Args:
        log: Where the effect is noted.
        what: The thing to be booked.
        pause_s: How long it takes, in seconds.
    """
    time.sleep(pause_s)
    note_effect(log, f"{context.turn_id} {context.call_id} {what}")
    return f"booked {what}"


@tool(idempotent=True)
def look(log: str, what: str, context: ToolContext, pause_s: float = 0.0) -> dict[str, str]:
    """Look something up; doing it twice does no harm."""
    time.sleep(pause_s)
    note_effect(log, f"{context.turn_id} {context.call_id} {what}")
    return {"seen": what}


@tool
def meet(folder: str, who: str, count: int) -> str:
    """Wait until so many have come: it ends well only where all of them run at the same time."""
    (Path(folder) / who).touch()
    limit = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < count:
        if time.monotonic() > limit:
            raise TimeoutError("nobody else came")
        time.sleep(0.05)
    return "met"


@tool
def open_browser(session: str, context: ToolContext) -> str:
    """Open a browser session and leave it open."""
    context.open_session(session)
    return "opened"


@tool
def raises() -> str:
    """Always fail."""
    raise LookupError("no such flight")


@tool(timeout_s=1.0)
def hangs(log: str) -> str:
    """Never return in time."""
    time.sleep(60)
    note_effect(log, "woke up")
    return "late"


@tool
def returns_much() -> str:
    """Return 50 MB."""
    return "x" * 50_000_000


@tool
def prints_binary() -> str:
    """Write bytes that are no text to standard output."""
    sys.stdout.buffer.write(bytes(range(256)) * 100)
    sys.stdout.flush()
    return "printed"


@tool
def kills_its_process() -> str:
    """End the process without a word."""
    os._exit(7)


@tool
def exits() -> str:
    """Call sys.exit."""
    sys.exit(3)


@tool
async def waits_async(seconds: float = 0.1) -> str:
    """Wait, as a coroutine."""
    import asyncio

    await asyncio.sleep(seconds)
    return "waited"
