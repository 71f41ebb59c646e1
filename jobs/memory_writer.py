"""The one thread that writes memories: what is asked for together is stored in one commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..storage.memory_store import MemoryStore
from ..storage.memory_write_records import MemoryWrite, WriteRefused, WriteResult
from .background import on_thread

Result = TypeVar("Result")
MOST_AT_ONCE = 128
"""Writes in one commit. Those behind wait for the next one, which has them all."""


class MemoryWriter:
    """Writes to the store of memories from the event loop. Everything asked for runs on one thread, in order."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory-writer")
        self._waiting: list[tuple[MemoryWrite, asyncio.Future[WriteResult]]] = []
        self._draining: asyncio.Task[None] | None = None
        self._used_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """How long nobody has asked for anything."""
        return time.monotonic() - self._used_at

    @property
    def wal_bytes(self) -> int:
        """Size of the file's write-ahead log."""
        return self._store.wal_bytes

    async def write(self, write: MemoryWrite) -> WriteResult:
        """Store a memory; durable on return. It may be asked again under the same `write_id`.

        Raises:
            PerdureError: It cannot be stored; those that shared its commit were.
        """
        future: asyncio.Future[WriteResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, future))
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        return await future

    async def run(self, body: Callable[[MemoryStore], Result]) -> Result:
        """Let something else be written, behind what was asked for before. Raises as `on_thread` and what it calls."""
        self._used_at = time.monotonic()
        return await on_thread(self._thread, body, self._store)

    def close(self) -> None:
        """Let the last write end."""
        self._thread.shutdown(wait=True)

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            writes = [write for write, _ in batch]
            try:
                results = await self.run(lambda store, writes=writes: store.write_memories(writes=writes))  # type: ignore[misc]
            except BaseException as error:  # noqa: BLE001 - goes to everybody who waits for this commit
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue  # whoever waited has gone; it is stored all the same
                if isinstance(result, WriteRefused):
                    future.set_exception(result.error)
                else:
                    future.set_result(result)
