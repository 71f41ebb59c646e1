"""The gate of a runtime: calls pass while it is open, and closing waits for those that are inside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...storage.errors import RuntimeClosedError


class Gate:
    """Counts the calls that are under way. Ray must not go away below a thread that waits for it."""

    def __init__(self, check_beyond: Callable[[], None]) -> None:
        self._check_beyond = check_beyond
        self._changed = threading.Condition()
        self._inside = 0
        self._is_closed = False

    def check(self) -> None:
        """Raises `RuntimeClosedError` when it is closed, or what is wrong beyond it."""
        if self._is_closed:
            raise RuntimeClosedError
        self._check_beyond()

    @property
    def is_closed(self) -> bool:
        """Is it closed?"""
        return self._is_closed

    def __enter__(self) -> None:
        with self._changed:
            self.check()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> bool:
        """Let nobody in any more; says whether it was open before."""
        with self._changed:
            was_open, self._is_closed = not self._is_closed, True
            return was_open

    def wait_until_empty(self, timeout_s: float) -> None:
        """Wait for the calls inside, which look every half second whether the gate is closed."""
        limit = time.monotonic() + timeout_s
        with self._changed:
            while self._inside and (remaining := limit - time.monotonic()) > 0:
                self._changed.wait(remaining)
