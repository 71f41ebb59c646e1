"""A witness inside the conversation actors: it notes which steps were committed, at the moment they were.

It runs in the killed processes themselves (`injected/sitecustomize.py`), wraps the store and changes nothing
of it. A line says for certain that the step is on disk; a process that is killed between the commit and its
line leaves none, so the checker may miss a fault there and never sees one that is not.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .effect_log import append_line, read_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The first commit of a tool call's result."""

    status: str
    at_ns: int
    """`time.monotonic_ns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the witness has seen."""

    results: Mapping[tuple[str, str], Committed] = field(default_factory=dict)
    """By turn id and call id."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Attempts begun at the turns that the runtime owns, by turn id."""


def read_evidence(log: Path) -> Evidence:
    """All that was noted so far."""
    results: dict[tuple[str, str], Committed] = {}
    attempts: dict[str, int] = {}
    for line in read_lines(log):
        kind, *fields = line.split()
        if kind == "attempt":
            attempts[fields[0]] = attempts.get(fields[0], 0) + 1
        else:
            turn_id, call_id, status, at_ns = fields
            results.setdefault((turn_id, call_id), Committed(status=status, at_ns=int(at_ns)))
    return Evidence(results=results, attempts=attempts)


def watch_commits(log: Path) -> None:
    """Note, from here on, what this process's conversation store commits."""
    from perdure.storage.conversation_store import ConversationStore

    def after(name: str, note: Any) -> None:
        method = getattr(ConversationStore, name)

        @functools.wraps(method)
        def watched(store: object, **arguments: Any) -> object:
            result = method(store, **arguments)
            note(**arguments)
            return result

        setattr(ConversationStore, name, watched)

    def note_attempt(*, turn_id: str, owner: str = "runtime", **_: object) -> None:
        if owner == "runtime":
            append_line(log, f"attempt {turn_id}", sync=False)

    def note_results(*, turn_id: str, results: Any, **_: object) -> None:
        for result in results:
            line = f"result {turn_id} {result.call_id} {result.status} {time.monotonic_ns()}"
            append_line(log, line, sync=False)

    after("open_turn", note_attempt)
    after("begin_attempt", note_attempt)
    after("record_results", note_results)
    after("record_round", note_results)
