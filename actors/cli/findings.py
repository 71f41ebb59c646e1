"""What `perdure doctor` finds, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    level: Level
    subject: str
    text: str
    remedy: str | None = None
    """How to put it right; every finding that is not ok has one."""


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(level="ok", subject=subject, text=text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """It works, and somebody should know."""
    return Finding(level="warning", subject=subject, text=text, remedy=remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    """Something does not work."""
    return Finding(level="problem", subject=subject, text=text, remedy=remedy)
