"""Whether a conversation's process is in use, and the moment after which it takes no more calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..storage.errors import PerdureError
from .live_marks import LiveMark


class PassivatedError(PerdureError):
    """The process is ending after its conversation was idle; the next call starts another. Never seen by users."""

    retryable = True


class Activity:
    """Counts the calls under way. Closing begins only while there are none, and none begins after it."""

    def __init__(self, mark: LiveMark) -> None:
        self._mark = mark
        self._lock = threading.Lock()
        self._under_way = 0
        self._own_calls = 0
        self._looking = 0
        self._last_used = time.monotonic()
        self._is_closing = False

    @contextmanager
    def use(self) -> Iterator[None]:
        """A call is under way.

        Raises:
            PassivatedError: The process is ending.
        """
        with self._lock:
            if self._is_closing:
                raise PassivatedError
            self._under_way += 1
        self._mark.touch()
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._last_used = time.monotonic()
            self._mark.touch()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Somebody looks at the process. That is no use of it, but it does not end meanwhile.

        Raises:
            PassivatedError: The process is ending.
        """
        with self._lock:
            if self._is_closing:
                raise PassivatedError
            self._looking += 1
        try:
            yield
        finally:
            with self._lock:
                self._looking -= 1

    @contextmanager
    def own_call(self) -> Iterator[None]:
        """This process waits for a call to its own actor.

        Raises:
            PassivatedError: The process is ending; nobody would answer.
        """
        self.begin_own_call()
        try:
            yield
        finally:
            self.end_own_call()

    def begin_own_call(self) -> None:
        """As `own_call`, for a call that nobody waits for; its method says when it has run."""
        with self._lock:
            if self._is_closing:
                raise PassivatedError
            self._own_calls += 1

    def end_own_call(self) -> None:
        """An own call has run."""
        with self._lock:
            self._own_calls -= 1

    @property
    def idle_s(self) -> float:
        """For how long nothing was under way; 0 while something is."""
        with self._lock:
            return 0.0 if self._under_way else time.monotonic() - self._last_used

    def begin_closing(self, idle_s: float, *, asked_by_itself: bool) -> bool:
        """Take no more calls, if none is under way and none was for so long; says whether that is so now.

        Ray ends a process only once all calls that it has made are answered, so one that ends with an unanswered
        call to itself would neither live nor die.
        """
        with self._lock:
            is_waiting = self._own_calls > (1 if asked_by_itself else 0)
            is_busy = self._under_way or self._looking or is_waiting
            if self._is_closing or is_busy or time.monotonic() - self._last_used < idle_s:
                return False
            self._is_closing = True
            return True
