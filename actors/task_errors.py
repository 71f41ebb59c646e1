"""Errors that cross between processes: ours, whatever Ray wraps them in."""

from __future__ import annotations

from typing import Any

from ..storage.errors import InternalError, PerdureError


def cause_of(error: Any) -> PerdureError:
    """Our error that an actor's method raised."""
    cause = error.cause
    if isinstance(cause, PerdureError):
        return cause
    return InternalError(str(error))
