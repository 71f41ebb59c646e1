"""Lanes: one call in flight per conversation, the others in order behind it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from typing import Any, TypeVar

from ...storage.errors import RuntimeClosedError

Result = TypeVar("Result")


class Lane:
    """Runs what it is given one after the other, on threads that all lanes share.

    Ray keeps the order of a client's calls only while nothing fails, so the next call goes out when the one
    before has been answered.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any], float]] = deque()
        self._is_running = False
        self._is_closed = False

    def submit(self, body: Callable[[], Result], *, here: bool = False) -> Future[Result]:
        """The future of `body`, which runs when everything before it has ended. A cancelled one is passed over.

        Args:
            here: Run it on this thread, where nothing is before it.
        """
        future: Future[Result] = Future()
        submitted_at = time.monotonic()
        with self._lock:
            if self._is_closed:
                raise RuntimeClosedError
            is_first, self._is_running = not self._is_running, True
            if not (here and is_first):
                self._waiting.append((future, body, submitted_at))
        if is_first and here:
            run_into(future, body, submitted_at)
            self._hand_on()
        elif is_first:
            self._executor.submit(self._drain)
        return future

    def close(self) -> None:
        """Take nothing more; what waits fails with `RuntimeClosedError`."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, deque()
        for future, _, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(RuntimeClosedError())

    def _hand_on(self) -> None:
        """What has come to wait meanwhile goes on elsewhere."""
        with self._lock:
            self._is_running = bool(self._waiting)
            if self._is_running:
                self._executor.submit(self._drain)

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                future, body, submitted_at = self._waiting.popleft()
            run_into(future, body, submitted_at)


SUBMITTED_AT: ContextVar[float] = ContextVar("submitted_at")
"""When the call at hand was made (`time.monotonic`): its time limit counts the wait in its lane too."""


def run_into(future: Future[Result], body: Callable[[], Result], submitted_at: float) -> None:
    """Run a body into its future, unless that has been cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    before = SUBMITTED_AT.set(submitted_at)
    try:
        future.set_result(body())
    except BaseException as error:  # noqa: BLE001 - belongs to whoever waits for the future
        future.set_exception(error)
    finally:
        SUBMITTED_AT.reset(before)
