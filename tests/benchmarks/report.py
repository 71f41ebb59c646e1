"""How a benchmark reports: a table to be read, and one line of JSON to be parsed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure."""

    key: str
    value: float
    meaning: str
    goal: float | None = None
    """At most this; None: no goal."""
    least: float | None = None
    """At least this; None: no goal."""

    @property
    def told_goal(self) -> str:
        """The goal, and whether it was missed."""
        if self.goal is not None:
            return f"goal <= {self.goal:g}{' MISSED' if self.value > self.goal else ''}"
        if self.least is not None:
            return f"goal >= {self.least:g}{' MISSED' if self.value < self.least else ''}"
        return ""


def report(figures: Sequence[Figure], context: Mapping[str, object]) -> None:
    """Print the table, and the JSON object of all figures as the last line."""
    print("  ".join(f"{key}={value}" for key, value in context.items()))
    width = max(len(figure.key) for figure in figures)
    for figure in figures:
        print(f"{figure.key:<{width}}  {figure.value:>12,.3f}  {figure.told_goal:<22}  {figure.meaning}")
    print(json.dumps({figure.key: round(figure.value, 4) for figure in figures}))
