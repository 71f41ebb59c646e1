"""Tools that cost nothing themselves."""

from __future__ import annotations

from perdure.actors import tool


@tool
def instant(place: int) -> str:
    """Answer at once."""
    return f"result {place}"
