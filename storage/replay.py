"""Writes that can be replayed: the store calls of which the same calls again give the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class WriteCall:
    """A call of a replayable method: everything that the write depends on, but what the file holds."""

    method: str
    arguments: dict[str, Any]


def replayable(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Mark a method that writes. It takes every id and time as a keyword argument, and reads no clock."""
    method.__replayable__ = True  # type: ignore[attr-defined]
    return method


def replayable_methods(store: type) -> frozenset[str]:
    """Names of the methods of a store that write."""
    return frozenset(name for name, member in vars(store).items() if getattr(member, "__replayable__", False))


def replay(store: object, calls: Iterable[WriteCall]) -> None:
    """Make recorded calls again, in order."""
    for call in calls:
        getattr(store, call.method)(**call.arguments)
