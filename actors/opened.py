"""A store that an actor holds open: opened late, waited for, opened anew after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from ..storage.errors import FileInUseError, StorageError

LOCK_POLL_S = 0.02


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Let go of the file."""


Store = TypeVar("Store", bound=Closable)


class Opened(Generic[Store]):
    """The store of an actor. An actor's constructor never raises: what goes wrong is raised by its calls.

    A failing file is tried again by the next call, so what an operator repairs works without a restart. After
    an error of storage the file is opened anew, since the database may have closed itself.
    """

    def __init__(self, open_store: Callable[[], Store], lock_wait_s: float) -> None:
        self._open_store = open_store
        self._lock_wait_s = lock_wait_s
        self._store: Store | None = None
        self._ended: Exception | None = None
        self._lock = threading.Lock()

    @property
    def current(self) -> Store | None:
        """The store, if it is open."""
        return self._store

    @contextmanager
    def use(self) -> Iterator[Store]:
        """The store, opened if it is not; an earlier process of the same actor may still hold the file a while."""
        with self._lock:
            if self._ended is not None:
                raise self._ended
            if self._store is None:
                self._store = self._wait_and_open()
            store = self._store
        try:
            yield store
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        """Close it, if it is open."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def end(self, error: Exception) -> None:
        """Close it for good; every later use raises this error."""
        with self._lock:
            self._ended = error
        self.close()

    def _wait_and_open(self) -> Store:
        limit = time.monotonic() + self._lock_wait_s
        while True:
            try:
                return self._open_store()
            except FileInUseError:
                if time.monotonic() >= limit:
                    raise
                time.sleep(LOCK_POLL_S)
