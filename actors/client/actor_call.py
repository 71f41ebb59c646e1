"""Calls to actors: the one place where a driver waits for Ray, retries, and turns its errors into ours."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from ...storage.errors import CallTimeoutError, FencedError, InternalError, InvalidInputError
from ..activity import PassivatedError
from ..task_errors import cause_of
from .gate import Gate
from .lane import SUBMITTED_AT

FIRST_BACKOFF_S = 0.005
LONGEST_BACKOFF_S = 0.2
LONGEST_WAIT_S = 0.5
SUPERSEDED = (PassivatedError, FencedError)
"""Errors of a process that another one takes the place of; the call goes to that one."""


class Deadline:
    """When a call has to be answered, counted from when it was made."""

    def __init__(self, call: str, timeout_s: float | None, turn_id: str | None = None) -> None:
        if timeout_s is not None and not _is_time_limit(timeout_s):
            raise InvalidInputError("timeout_s", f"{timeout_s!r} is no time limit", "give seconds above 0, or None")
        self._call = call
        self._timeout_s = timeout_s
        self._turn_id = turn_id
        self._at = None if timeout_s is None else SUBMITTED_AT.get(time.monotonic()) + timeout_s

    def remaining_s(self) -> float | None:
        """Seconds that are left; None for no limit.

        Raises:
            CallTimeoutError: None are left.
        """
        if self._at is None:
            return None
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise self.error()
        return remaining

    def next_look_s(self) -> float:
        """How long to wait at a stretch: after that, somebody may have closed the runtime.

        Raises:
            CallTimeoutError: No time is left.
        """
        remaining = self.remaining_s()
        return LONGEST_WAIT_S if remaining is None else min(remaining, LONGEST_WAIT_S)

    def error(self) -> CallTimeoutError:
        """The error of a call that missed it."""
        return CallTimeoutError(self._call, self._timeout_s or 0.0, self._turn_id)


class ActorLink:
    """The way to one actor, which may die, restart or be started anew between any two instructions."""

    def __init__(self, locate: Callable[[], Any], gate: Gate) -> None:
        self._locate = locate
        self.gate = gate
        self._handle: Any = None
        self._lock = threading.Lock()

    def call(self, method: str, *arguments: object, deadline: Deadline, concurrency_group: str | None = None) -> Any:
        """Call a method and wait for its answer; the call may run more than once, so it is idempotent.

        Raises:
            PerdureError: What the method raised, or that the deadline has passed.
        """
        with self.gate:
            return self._call(method, arguments, deadline, concurrency_group)

    def _call(
        self, method: str, arguments: tuple[object, ...], deadline: Deadline, concurrency_group: str | None
    ) -> Any:
        import ray
        from ray.exceptions import (
            ActorDiedError,
            ActorUnavailableError,
            GetTimeoutError,
            RayError,
            RayTaskError,
        )

        backoff_s = FIRST_BACKOFF_S
        while True:
            self.gate.check()
            try:
                bound = getattr(self.handle(), method)
                if concurrency_group is not None:
                    bound = bound.options(concurrency_group=concurrency_group)
                reference = bound.remote(*arguments)
                while True:
                    try:
                        return ray.get(reference, timeout=deadline.next_look_s())
                    except GetTimeoutError:
                        self.gate.check()
            except RayTaskError as error:
                cause = cause_of(error)
                if not isinstance(cause, SUPERSEDED):
                    raise cause from None
                self.forget()
            except (ActorDiedError, ActorUnavailableError):
                self.forget()
            except RayError as error:
                self.gate.check()
                raise InternalError(f"{type(error).__name__}: {error}") from error
            backoff_s = pause(backoff_s, deadline)

    def handle(self) -> Any:
        """The actor's handle, looked up or started if need be."""
        with self._lock:
            if self._handle is None:
                self._handle = self._look_up()
            return self._handle

    def forget(self) -> None:
        """The handle is of no use any more; the next call looks the actor up again."""
        with self._lock:
            self._handle = None

    def _look_up(self) -> Any:
        try:
            return self._locate()
        except ValueError:
            # The name was freed between Ray's look-up and its use: the actor is just ending.
            time.sleep(FIRST_BACKOFF_S)
            return self._locate()


def _is_time_limit(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and given > 0


def pause(backoff_s: float, deadline: Deadline) -> float:
    """Sleep before the next try; the backoff of the one after it."""
    remaining_s = deadline.remaining_s()
    time.sleep(min(backoff_s * random.uniform(0.5, 1.0), remaining_s if remaining_s is not None else backoff_s))
    return min(2 * backoff_s, LONGEST_BACKOFF_S)
