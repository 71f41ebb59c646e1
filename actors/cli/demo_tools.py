"""What the demonstration's scripted agent does: the tools, which are real, and the script, which is said to be one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...jobs.scripted_chat import CallTools, Pause, Rule, Say, Script
from ..tool_definition import Tool, tool

REQUEST = "Find a flight from Porto to Lisbon on 12 March and hold a seat for me, please."
ANSWER = "TP 1957 leaves Porto at 08:10 for 64 EUR. I hold seat 14C for you until tonight."
NOTES = "Ana flies Porto to Lisbon on 12 March; seat 14C on TP 1957 is held until tonight."
CALLS = ("search_flights", "hold_seat", "set_context")
"""The tools that the turn calls, each once; the last one is every conversation's own."""
THINKING_S = 2.0


def trip_script() -> Script:
    """The model of the trip: two rounds of tools, a pause in which it seems to think, an answer."""
    search = ("search_flights", {"origin": "Porto", "destination": "Lisbon", "day": "12 March"})
    hold = ("hold_seat", {"flight": "TP 1957", "seat": "14C"})
    steps = (
        CallTools((search,), text="Let me look."),
        CallTools((hold, ("set_context", {"notes": NOTES}))),
        Pause(THINKING_S),
        Say(ANSWER),
    )
    return Script((Rule(None, steps),))


def trip_tools(log: Path) -> tuple[Tool[..., Any], ...]:
    """The tools of the trip. Each notes in the log that it ran, on disk before it returns."""
    log_path = str(log)

    def note(effect: str) -> None:
        with open(log_path, "a", encoding="utf-8") as file:
            file.write(f"{effect} (process {os.getpid()})\n")
            file.flush()
            os.fsync(file.fileno())

    @tool(idempotent=True)
    def search_flights(origin: str, destination: str, day: str) -> list[dict[str, str]]:
        """Search flights.

        Args:
            origin: City of departure.
            destination: City of arrival.
            day: Day of departure.
        """
        note("search_flights")
        route = f"{origin} to {destination}, {day}"
        return [
            {"flight": "TP 1957", "route": route, "departs": "08:10", "price": "64 EUR"},
            {"flight": "TP 1961", "route": route, "departs": "11:35", "price": "79 EUR"},
        ]

    @tool
    def hold_seat(flight: str, seat: str) -> str:
        """Hold a seat. Doing it twice would hold two, so it is not declared idempotent.

        Args:
            flight: Number of the flight.
            seat: The seat.
        """
        note("hold_seat")
        return f"held: {seat} on {flight} until tonight"

    return search_flights, hold_seat


def effects(log: Path) -> list[str]:
    """What ran, in order, by the tools' own log."""
    if not log.exists():
        return []
    return [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
