"""A lock that many may hold together, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """Whoever wants it alone waits for those that share it, and keeps new ones out. Not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._waiting = 0
        self._is_taken = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken and not self._waiting)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it while nobody else does."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._is_taken and not self._sharing)
                self._is_taken = True
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()
