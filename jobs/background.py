"""Work beside an event loop: tasks in its background until they are ended, and what blocks, on threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TypeVar

from ..storage.errors import FileClosedError, PerdureError

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, and wait until they have ended; what they failed with has been logged by them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_at_most(awaitable: Awaitable[object], timeout_s: float | None) -> None:
    """Wait for something, no longer than that.

    `asyncio.wait_for` of Python 3.11 forgets that it was cancelled if what it waits for comes in the same moment,
    and its task then never ends.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await awaitable


async def on_thread(thread: Executor, body: Callable[..., Result], *arguments: object) -> Result:
    """What comes of work on a thread that serves the file of memories.

    Raises:
        FileClosedError: The thread has ended, and the file has been closed.
    """
    try:
        answer = asyncio.get_running_loop().run_in_executor(thread, body, *arguments)
    except RuntimeError as error:
        raise FileClosedError("the file of memories", "has just been closed; repeat the call") from error
    return await answer


async def every(interval_s: float, what: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again; what fails is logged, and done again at its next time."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except PerdureError as error:
            logger.warning("%s failed: %s", what, error)
        except Exception:
            logger.exception("%s failed", what)
