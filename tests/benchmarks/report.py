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


def report(figures: Sequence[Figure], context: Mapping[str, object]) -> None:
    """Print the table, and the JSON object of all figures as the last line."""
    print("  ".join(f"{key}={value}" for key, value in context.items()))
    width = max(len(figure.key) for figure in figures)
    for figure in figures:
        goal = (
            "" if figure.goal is None else f"goal <= {figure.goal:g}{' MISSED' if figure.value > figure.goal else ''}"
        )
        print(f"{figure.key:<{width}}  {figure.value:>12,.3f}  {goal:<22}  {figure.meaning}")
    print(json.dumps({figure.key: round(figure.value, 4) for figure in figures}))
