"""Requests to providers, each on a thread of its own that may be left behind, and how long to wait before another."""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from .model_failures import Failure

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 8.0
EXIT_WAIT_S = 5.0
LONGEST_RETRY_AFTER_S = 60.0
"""A provider that asks for a longer pause is not waited for."""

Piece = TypeVar("Piece")


class _RequestThread(threading.Thread):
    """Asks a provider, and may be left behind."""


def _let_requests_end() -> None:
    """Wait a moment for the requests under way when the interpreter ends.

    One that is importing a module just then (litellm does, late) would take the import lock along, and the
    interpreter would wait for that lock for ever. One that is waiting for its server does no harm.
    """
    ends_at = time.monotonic() + EXIT_WAIT_S
    for thread in threading.enumerate():
        if isinstance(thread, _RequestThread):
            thread.join(max(0.0, ends_at - time.monotonic()))


atexit.register(_let_requests_end)


def pieces_within(
    timeout_s: float,
    pieces: Callable[[], Iterator[Piece]],
    is_last: Callable[[Piece], bool],
    monotonic: Callable[[], float],
) -> Iterator[Piece]:
    """What an answer consists of, cut off at `timeout_s` however it arrives.

    litellm's timeout counts from byte to byte, so a server that sends one now and then is never too late for it.
    The request therefore runs on a thread of its own; one that is given up ends at its next piece or at
    litellm's timeout.

    Raises:
        TimeoutError: The last piece was not there in time.
    """
    arrived: queue.SimpleQueue[Piece | Exception] = queue.SimpleQueue()
    is_given_up = threading.Event()

    def ask() -> None:
        try:
            for piece in pieces():
                if is_given_up.is_set():
                    return
                arrived.put(piece)
        except Exception as error:  # noqa: BLE001  raised again by the thread that waits
            arrived.put(error)

    thread = _RequestThread(target=ask, name="model-request", daemon=True)
    thread.start()
    ends_at = monotonic() + timeout_s
    try:
        while True:
            try:
                piece = arrived.get(timeout=max(0.0, ends_at - monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if isinstance(piece, Exception):
                thread.join()
                raise piece
            if is_last(piece):
                thread.join()
                yield piece
                return
            yield piece
    finally:
        is_given_up.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential, with full jitter, after the pause that the provider asks for."""

    max_retries: int
    random: Callable[[], float]
    """Draws from 0 to 1."""

    def pause_before(self, attempts: int, failure: Failure) -> float | None:
        """How long to wait for the next attempt, after that many; None: there is none."""
        if not failure.is_worth_retrying or attempts > self.max_retries:
            return None
        if failure.retry_after_s is not None and failure.retry_after_s > LONGEST_RETRY_AFTER_S:
            return None
        backoff_s = self.random() * min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempts - 1))
        return (failure.retry_after_s or 0.0) + backoff_s
