"""What the tools of a campaign did in the world: a log of their own, on disk before they go on.

Times are `time.monotonic_ns`, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

Moment = Literal["start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A line of the log: a tool call began, or came to its end."""

    moment: Moment
    turn_id: str
    call_id: str
    is_idempotent: bool
    at_ns: int


def note_effect(log: Path, moment: Moment, turn_id: str, call_id: str, *, is_idempotent: bool) -> None:
    """Append a line durably."""
    append_line(log, f"{moment} {turn_id} {call_id} {int(is_idempotent)} {time.monotonic_ns()}", sync=True)


def read_effects(log: Path) -> Sequence[Effect]:
    """The lines in the order they were written."""
    return [
        Effect(
            moment=cast(Moment, moment),
            turn_id=turn_id,
            call_id=call_id,
            is_idempotent=idempotent == "1",
            at_ns=int(at_ns),
        )
        for moment, turn_id, call_id, idempotent, at_ns in map(str.split, read_lines(log))
    ]


def append_line(log: Path, line: str, *, sync: bool) -> None:
    """Append in one `write`, which a kill does not cut in two."""
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_lines(log: Path) -> list[str]:
    """The lines of a log; none while it does not exist."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []
