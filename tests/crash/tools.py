"""The tools of a campaign. They take a moment, so that kills hit them in the middle."""

from __future__ import annotations

import time
from pathlib import Path

from perdure.actors import ToolContext, tool

from .effect_log import note_effect
from .place import place_in_environment

FILLER = "and so on " * 20
"""Makes a result long enough for the write-ahead log to grow."""


@tool
def reserve(pause_s: float, context: ToolContext) -> str:
    """Reserve something; doing it twice does harm."""
    return run_call(place_in_environment().effects, context.turn_id, context.call_id, pause_s, is_idempotent=False)


@tool(idempotent=True)
def look(pause_s: float, context: ToolContext) -> str:
    """Look something up; doing it twice does no harm."""
    return run_call(place_in_environment().effects, context.turn_id, context.call_id, pause_s, is_idempotent=True)


def run_call(log: Path, turn_id: str, call_id: str, pause_s: float, *, is_idempotent: bool) -> str:
    """What both do: note the start, take a while, note the end."""
    note_effect(log, "start", turn_id, call_id, is_idempotent=is_idempotent)
    time.sleep(pause_s)
    note_effect(log, "end", turn_id, call_id, is_idempotent=is_idempotent)
    return result_of(turn_id, call_id)


def result_of(turn_id: str, call_id: str) -> str:
    """The result of a call: no other call has the same."""
    return f"{turn_id}/{call_id} {FILLER}"
