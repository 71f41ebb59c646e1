"""Keeps an index in step with the memories that are committed: told at once when it can be, later when it cannot.

What an index is told of stands in the outbox until the index has it on disk. So whatever dies, and whenever, it is
told again; and since it is always told what is true now, telling it twice does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from ..storage.errors import IndexDamagedError, PerdureError
from ..storage.index_records import IndexRow, SourceId
from ..storage.memory_index_records import IndexKind, PendingChange
from ..storage.memory_readers import MemoryReaders
from ..storage.memory_records import Memory
from .index_access import IndexAccess
from .memory_requests import Difference
from .memory_writer import MemoryWriter

Row = TypeVar("Row", bound=IndexRow)

BATCH = 256
FLUSH_S = 0.5
"""Between what an index is told and its being asked to have it on disk."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
MAX_ATTEMPTS = 5
"""Of a change that the index, or the embedder, will not take; then it is parked."""

logger = logging.getLogger(__name__)


class RowRefusedError(Exception):
    """One memory cannot be made a row of the index, however often it is tried."""

    def __init__(self, change: PendingChange, reason: str) -> None:
        super().__init__(reason)
        self.change = change
        self.reason = reason


class IndexFeed(ABC, Generic[Row]):
    """Tells one index. All its methods run in one event loop; the outbox is read on a thread."""

    def __init__(
        self,
        kind: IndexKind,
        index: IndexAccess[Row, Any],
        writer: MemoryWriter,
        readers: MemoryReaders,
        thread: Executor,
        committed_seq: Callable[[], int],
    ) -> None:
        self.kind = kind
        self._index = index
        self._writer = writer
        self._readers = readers
        self._thread = thread
        self._committed_seq = committed_seq
        self._told = self._flushed = readers.outbox.cursor(kind).delivered_seq
        self._incarnation: str | None = None
        self._problem: str | None = None
        self._changed = asyncio.Condition()
        self._wake = asyncio.Event()
        self._telling = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    async def rows(self, changes: Sequence[PendingChange], revision: int | None = None) -> list[Row]:
        """The rows of memories that are to be in the index.

        Args:
            revision: Of all of them. None: each change's place.

        Raises:
            RowRefusedError: One of them cannot be made a row.
            PerdureError: None can now; they may be later.
        """

    @abstractmethod
    def is_held(self, memory: Memory) -> bool:
        """Has a memory of this kind a place in this index?"""

    @property
    def problem(self) -> str | None:
        """Why the index cannot be told now; None while it can."""
        return self._problem

    @property
    def incarnation(self) -> str | None:
        """The process that was told last."""
        return self._incarnation

    def start(self) -> None:
        """Begin to tell it, in the running event loop."""
        self._tasks = [asyncio.create_task(self._keep_telling()), asyncio.create_task(self._keep_flushing())]
        self._wake.set()

    async def stop(self) -> None:
        """Tell it no more."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def wake(self) -> None:
        """Something was committed."""
        self._wake.set()

    async def until_told(self, seq: int, timeout_s: float) -> str | None:
        """Wait until the index finds all changes up to a place; the reason if it does not by then."""
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self._told >= seq or self._problem is not None)
        except TimeoutError:
            return f"it did not answer within {timeout_s:g} s"
        return None if self._told >= seq else self._problem

    async def answered(self, incarnation: str, timeout_s: float) -> bool:
        """Note which process answered a search. False: it had begun anew; it has been told all again since."""
        if self._incarnation in (None, incarnation):
            return True
        self._begin_again()
        await self.until_told(self._committed_seq(), timeout_s)
        return False

    async def reindex(self, progress: Callable[[int], None]) -> int:
        """Make the index anew from the memories there are; how many are in it now.

        Raises:
            PerdureError: It cannot be used. Nothing is lost; what it has is incomplete until this succeeds.
        """
        async with self._telling:
            self._problem = "it is being made anew"
            await self._tell_changed()
            try:
                seq = self._committed_seq()
                self._incarnation = await self._index.rebuild()
                count = 0
                async for page in self._active_pages():
                    await self._put(page, seq)
                    count += len(page)
                    progress(count)
                await self._index.flush()
            except BaseException:
                self._problem = "it was not made anew to the end; run `perdure reindex`"
                raise
            self._problem = None
            self._told = max(self._told, seq)
        self._wake.set()
        await self._tell_changed()
        return count

    async def difference(self, *, repair: bool = False) -> Difference:
        """How the index differs from the memories there are; repaired, if asked for."""
        async with self._telling:
            try:
                await self._tell()
                found = dict(await self._index.sources())
                seq, missing = self._committed_seq(), 0
                kept: set[str] = set()
                async for page in self._active_pages():
                    kept.update(memory.vector_id for memory in page)
                    lacking = [memory for memory in page if SourceId(memory.vector_id) not in found]
                    missing += len(lacking)
                    if lacking and repair:
                        await self._put(lacking, seq)
                surplus = [source for source in found if source not in kept]
                if surplus and repair:
                    await self._index.apply([], surplus)
                if repair and (surplus or missing):
                    await self._index.flush()
            except RowRefusedError as error:
                return Difference(kind=self.kind, missing=0, surplus=0, problem=error.reason)
            except PerdureError as error:
                return Difference(kind=self.kind, missing=0, surplus=0, problem=str(error))
        return Difference(kind=self.kind, missing=missing, surplus=len(surplus))

    async def _put(self, memories: Sequence[Memory], seq: int) -> None:
        changes = [
            PendingChange(
                kind=self.kind,
                agent_id=memory.agent_id,
                vector_id=memory.vector_id,
                seq=seq,
                changed_at=memory.updated_at,
                memory=memory,
            )
            for memory in memories
        ]
        await self._index.apply(await self.rows(changes), [])

    async def _active_pages(self) -> AsyncIterator[list[Memory]]:
        after = 0
        while page := await self._read(lambda: self._readers.scan.active_page(after, BATCH)):  # noqa: B023
            after = page[-1].row_id
            if held := [memory for memory in page if self.is_held(memory)]:
                yield held

    async def _keep_telling(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                async with self._telling:
                    await self._tell()
                pause_s = FIRST_PAUSE_S
                await self._set_problem(None)
                continue
            except RowRefusedError as error:
                await self._refused(error)
            except Exception as error:
                if not isinstance(error, PerdureError):
                    logger.exception("the %s index was not told", self.kind)
                await self._set_problem(str(error) or type(error).__name__)
                if isinstance(error, IndexDamagedError):
                    logger.warning("the %s index is unusable: %s", self.kind, error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause_s)
            self._wake.set()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _tell(self) -> None:
        while True:
            target = self._committed_seq()
            if self._told >= target:
                return
            changes = await self._read(lambda: self._readers.outbox.pending(self.kind, self._told, BATCH))
            newest = {change.vector_id: change for change in changes}
            present = [change for change in newest.values() if change.memory is not None]
            gone = [SourceId(change.vector_id) for change in newest.values() if change.memory is None]
            if changes:
                incarnation = await self._index.apply(await self.rows(present), gone)
                if self._incarnation not in (None, incarnation):
                    self._incarnation = incarnation
                    self._told = self._flushed
                    continue  # it has begun anew, and may lack what was told before
                self._incarnation = incarnation
            self._told = changes[-1].seq if len(changes) == BATCH else max(target, self._told)
            await self._tell_changed()

    async def _refused(self, error: RowRefusedError) -> None:
        change = error.change
        logger.warning("the %s index cannot take %s: %s", self.kind, change.vector_id, error.reason)
        cursor = await self._read(lambda: self._readers.outbox.cursor(self.kind))
        if cursor.attempts + 1 < MAX_ATTEMPTS:
            await self._writer.run(lambda store: store.fail(kind=self.kind))
            await self._set_problem(error.reason)
            return
        await self._acknowledge(change.seq - 1)
        await self._writer.run(
            lambda store: store.park(kind=self.kind, seq=change.seq, error=error.reason, at=change.changed_at)
        )
        self._told = self._flushed = max(self._told, change.seq)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            if self._told <= self._flushed:
                continue
            try:
                await self._flush()
            except Exception as error:
                if not isinstance(error, PerdureError):
                    logger.exception("the %s index was not flushed", self.kind)

    async def _flush(self) -> None:
        async with self._telling:
            told = self._told
            incarnation = await self._index.flush()
            if incarnation != self._incarnation:
                self._begin_again()
                return
            await self._acknowledge(told)

    async def _acknowledge(self, seq: int) -> None:
        await self._writer.run(lambda store: store.acknowledge(kind=self.kind, seq=seq))
        self._flushed = max(self._flushed, seq)

    def _begin_again(self) -> None:
        self._told, self._incarnation = self._flushed, None
        self._wake.set()

    async def _set_problem(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
        await self._tell_changed()

    async def _tell_changed(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _read(self, body: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, body)
