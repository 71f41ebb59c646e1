"""A flag by which one thread of an actor ends the turn that another thread runs."""

from __future__ import annotations

import threading

from ..jobs.turn import Cancelled
from ..storage.records import TurnId


class CancelFlag:
    """Names the turn that is running and the one that is to end; a request never hits a later turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: TurnId | None = None
        self._requested: TurnId | None = None

    @property
    def running(self) -> TurnId | None:
        """The turn that is being executed."""
        return self._running

    def begin(self, turn_id: TurnId) -> None:
        """A turn starts."""
        with self._lock:
            self._running, self._requested = turn_id, None

    def end(self) -> None:
        """It has ended."""
        with self._lock:
            self._running = self._requested = None

    def request(self) -> TurnId | None:
        """Ask the running turn to end; its id, or None when none is running."""
        with self._lock:
            self._requested = self._running
            return self._running

    def check(self, turn_id: TurnId) -> None:
        """Raises `Cancelled` when this turn is to end."""
        if self._requested == turn_id:
            raise Cancelled

    def check_running(self) -> None:
        """Raises `Cancelled` when the running turn is to end."""
        if self._requested is not None:
            raise Cancelled
