"""Keeps an index in step with the memories that are committed: told at once when it can be, later when it cannot.

What an index is told of stands in the outbox until the index has it on disk. So whatever dies, and whenever, it is
told again; and since it is always told what is true now, telling it twice does no harm.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from ..storage.errors import IndexDamagedError, IndexUnavailableError, PerdureError
from ..storage.index_records import IndexRow, SourceId
from ..storage.memory_index_records import IndexKind, PendingChange
from ..storage.memory_keys import AgentId, VectorId, Visibility, parse_vector_id
from ..storage.memory_readers import MemoryReaders
from ..storage.memory_records import Memory
from ..storage.memory_store import MemoryStore
from .background import end, on_thread, wait_at_most
from .index_access import IndexAccess, SearchAnswer
from .memory_writer import MemoryWriter

Row = TypeVar("Row", bound=IndexRow)
Result = TypeVar("Result")

BATCH = 256
FLUSH_S = 0.5
"""Between what an index is told and its being asked to have it on disk."""
ANSWER_S = 60.0
"""An index that takes longer over one call counts as away."""
MOST_SEARCHES = 4
"""For one answer, while the index keeps dying."""
GRACE_S = 0.25
"""So long at most a search waits for an index that is known to have a problem."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldMemory:
    """A memory of which an index is to be told."""

    memory: Memory
    revision: int
    """Higher with every change under its id."""
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Generic[Row]):
    """Memories as rows of an index."""

    rows: Sequence[Row]
    refused: dict[VectorId, str]
    """Those that cannot be made rows however often it is tried, each with the reason."""


class IndexFeed(ABC, Generic[Row]):
    """Tells one index. All its methods run in one event loop; the outbox is read on a thread."""

    def __init__(
        self,
        kind: IndexKind,
        index: IndexAccess[Row, Any],
        writer: MemoryWriter,
        readers: MemoryReaders,
        thread: Executor,
        store: MemoryStore,
    ) -> None:
        self.kind = kind
        self.doubt = asyncio.Event()
        """Set while the index may lack what it should have on disk, so that it has to be compared."""
        self.lacking: str | None = None
        """What it is known to lack."""
        self._index = index
        self._writer = writer
        self._readers = readers
        self._thread = thread
        self._store = store
        self._told = self._flushed = readers.outbox.cursor(kind).delivered_seq
        self._promised = store.committed_seq
        """All up to there the index is said to find."""
        self._incarnation: str | None = None
        self._problem: str | None = None
        self._tries = 0
        self._refused: dict[VectorId, str] = {}
        self._touched: set[VectorId] | None = None
        self._unflushed_since: float | None = None
        self._changed = asyncio.Condition()
        self._wake = asyncio.Event()
        self._telling = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    async def rows(self, memories: Sequence[ToldMemory]) -> Rows[Row]:
        """Memories as rows of the index.

        Raises:
            PerdureError: None can be made now; they may be later.
        """

    @abstractmethod
    def is_held(self, memory: Memory) -> bool:
        """Has a memory of this kind a place in this index?"""

    @abstractmethod
    async def probe(self, agent_id: AgentId) -> None:
        """Have an agent's rows searched for something that is always harmless. Raises as `IndexAccess.search`."""

    @property
    def problem(self) -> str | None:
        """Why the index does not find all that it should; None while it does."""
        return self._problem or self.lacking

    def refusal(self, vector_id: VectorId) -> str | None:
        """Why the index cannot take a memory, if it cannot."""
        return self._refused.get(vector_id)

    def start(self) -> None:
        """Begin to tell it, in the running event loop."""
        self._tasks = [asyncio.create_task(self._keep_telling())]
        self._wake.set()
        if self._store.committed_seq >= 0:  # else there is nothing to compare it with, and it need not even run
            self.doubt.set()

    async def stop(self) -> None:
        """Tell it no more."""
        await end(*self._tasks)

    def wake(self) -> None:
        """Something was committed."""
        self._wake.set()

    async def until_told(self, seq: int, timeout_s: float, grace_s: float = 0.0) -> str | None:
        """Wait until the index finds all changes up to a place; the reason if it does not by then.

        Args:
            grace_s: So long at most an index is waited for that is known to have a problem, while it is tried twice:
                its process may only just have begun anew.
        """
        self._wake.set()
        if self._problem is not None and not grace_s and self._told < seq:
            return self._problem
        last_try = self._tries + (2 if grace_s else 1)
        is_known = self._problem is not None
        try:
            async with asyncio.timeout(min(grace_s, timeout_s) if is_known else timeout_s), self._changed:
                await self._changed.wait_for(
                    lambda: self._told >= seq or (self._problem is not None and self._tries >= last_try)
                )
        except TimeoutError:
            if is_known and self._problem is not None:
                return self._problem
            reason = f"it did not answer within {timeout_s:g} s"
            if self._problem is None:
                await self._set_problem(reason)  # whoever comes next need not wait for it as long
            return reason
        return None if self._told >= seq else self._problem

    async def searched(self, search: Callable[[], Awaitable[SearchAnswer]], timeout_s: float) -> SearchAnswer:
        """What a search finds once the index, in its present process, has been told all that it is said to find.

        Where it cannot be told in time, what it finds without; `problem` says so.
        """
        for searches in itertools.count(1):
            told_to, is_told = self._incarnation, self._told >= self._promised
            answer = await search()
            if (is_told and told_to in (None, answer.incarnation)) or searches == MOST_SEARCHES:
                return answer
            if self._incarnation is not None and self._incarnation == told_to != answer.incarnation:
                self._begin_again(answer.incarnation)
            if await self.until_told(self._promised, timeout_s, GRACE_S) is not None:
                return answer
        raise AssertionError("the last search is answered")

    # For those who compare and repair it.

    async def sources(self) -> set[VectorId]:
        """The ids that the index holds, once it has been told all there is; `touched` counts from here.

        Raises:
            PerdureError: It cannot be told, or asked.
        """
        async with self._telling:
            await self._tell()
            found = {VectorId(source) for source, _ in await self._asked(self._index.sources())}
            self._touched = set()
            return found

    async def touched(self) -> set[VectorId]:
        """The ids of which the index was told, or will be, since `sources` was called last."""
        pending = await self._pending(10 * BATCH)
        touched, self._touched = self._touched or set(), None
        return touched | {change.vector_id for change in pending}

    async def until_well(self) -> None:
        """Wait until it can be told."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._problem is None)

    async def set_right(self, ids: Sequence[VectorId]) -> None:
        """Have the index hold what is true now of these ids.

        Raises:
            PerdureError: It cannot be told.
        """
        await self.rows(await self._true_now(ids))  # what takes long is done before anybody has to wait for it
        async with self._telling:
            made = await self.rows(await self._true_now(ids))
            held = {VectorId(row.source) for row in made.rows}
            await self._apply(made, [SourceId(each) for each in ids if each not in held])

    async def begin_anew(self) -> None:
        """Empty the index, whatever state it is in. What is committed from here on it is told as ever.

        Raises:
            PerdureError: It cannot be used.
        """
        async with self._telling:
            self._incarnation = await self._asked(self._index.rebuild())

    async def flush(self) -> None:
        """Have all that the index was told on disk. Raises as `IndexAccess.flush`."""
        async with self._telling:
            await self._flush()

    async def tell_parked_again(self) -> None:
        """Put what the index could not take back into its outbox: by now it may."""
        for change in await self.read(self._readers.outbox.parked):
            if change.kind == self.kind:
                await self._writer.run(
                    lambda store, change=change: store.unpark(kind=change.kind, seq=change.seq, at=change.parked_at)  # type: ignore[misc]
                )
        self._wake.set()

    async def active_page(self, after_row: int) -> tuple[int, list[Memory]]:
        """The next memories that the index should hold, and the row after which to go on; -1: there are no more."""
        page = await self.read(lambda: self._readers.scan.active_page(after_row, BATCH))
        last_row = page[-1].row_id if page else -1
        return last_row, [memory for memory in page if self.is_held(memory)]

    async def read(self, body: Callable[[], Result]) -> Result:
        """Read from the file, on the thread of this feed."""
        return await on_thread(self._thread, body)

    # Inside.

    async def _true_now(self, ids: Sequence[VectorId]) -> list[ToldMemory]:
        seq = self._store.committed_seq  # read first: what is read next is never older
        by_agent: dict[AgentId, list[VectorId]] = {}
        for vector_id in ids:
            if (parsed := parse_vector_id(vector_id)) is not None:
                by_agent.setdefault(parsed[0], []).append(vector_id)
        found: list[Memory] = []
        for agent_id, wanted in by_agent.items():
            visible = Visibility.of_agent(agent_id)
            found += (await self.read(lambda v=visible, w=wanted: self._readers.memories.by_vector_ids(v, w))).values()  # type: ignore[misc]
        return [
            ToldMemory(memory=memory, revision=seq, changed_at=memory.updated_at)
            for memory in found
            if self.is_held(memory)
        ]

    async def _keep_telling(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await wait_at_most(self._wake.wait(), self._flush_due_in())
            self._wake.clear()
            try:
                async with self._telling:
                    await self._tell()
                    if self._flush_due_in() == 0:
                        await self._flush()
                pause_s = FIRST_PAUSE_S
                await self._set_problem(None)
                continue
            except PerdureError as error:
                if isinstance(error, IndexDamagedError):
                    self.doubt.set()
                await self._set_problem(str(error))
            except Exception as error:
                logger.exception("the %s index was not told", self.kind)
                await self._set_problem(str(error) or type(error).__name__)
            await wait_at_most(self._wake.wait(), pause_s)
            self._wake.set()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _flush_due_in(self) -> float | None:
        """Seconds until the index is to be asked to have on disk what it was told; None: it has it."""
        if self._unflushed_since is None:
            return None
        return max(0.0, self._unflushed_since + FLUSH_S - asyncio.get_running_loop().time())

    async def _tell(self) -> None:
        while (told := self._told) < (target := self._store.committed_seq):
            changes = await self._pending(BATCH)
            newest = {change.vector_id: change for change in changes}
            made = await self.rows(
                [
                    ToldMemory(memory=change.memory, revision=change.seq, changed_at=change.changed_at)
                    for change in newest.values()
                    if change.memory is not None
                ]
            )
            if changes:
                held = {VectorId(row.source) for row in made.rows}
                await self._apply(made, [SourceId(each) for each in newest if each not in held])
            if self._told != told:
                continue  # it has begun anew, and may lack what was told before
            for vector_id in made.refused:
                if not await self._park(newest[vector_id], made.refused[vector_id]):
                    break
            else:
                self._told = changes[-1].seq if len(changes) == BATCH else target
                await self._tell_changed()

    async def _pending(self, limit: int) -> Sequence[PendingChange]:
        """The next changes of which the index was not told."""
        recent = self._store.recent_changes(self.kind, self._told, limit)
        if recent is not None:
            return recent
        return await self.read(lambda: self._readers.outbox.pending(self.kind, self._told, limit))

    async def _apply(self, made: Rows[Row], gone: Sequence[SourceId]) -> None:
        if self._unflushed_since is None:
            self._unflushed_since = asyncio.get_running_loop().time()
        self._met(await self._asked(self._index.apply(made.rows, gone)))
        ids = [VectorId(row.source) for row in made.rows] + [VectorId(source) for source in gone]
        for vector_id in ids:
            self._refused.pop(vector_id, None)
        self._refused |= made.refused
        if self._touched is not None:
            self._touched.update(ids)

    async def _park(self, change: PendingChange, reason: str) -> bool:
        """Put a change aside, once all before it is on disk; False if that has been lost and has to be told again."""
        logger.warning("the %s index cannot take %s: %s", self.kind, change.vector_id, reason)
        told, seq = self._told, change.seq
        self._met(await self._asked(self._index.flush()))
        if self._told != told:
            return False
        await self._acknowledge(seq - 1)
        await self._writer.run(lambda store: store.park(kind=self.kind, seq=seq, error=reason, at=change.changed_at))
        self._flushed = max(self._flushed, seq)
        return True

    async def _flush(self) -> None:
        told = self._told
        self._unflushed_since = None
        try:
            self._met(await self._asked(self._index.flush()))
            if self._told >= told:
                await self._acknowledge(told)
        except BaseException:
            self._unflushed_since = asyncio.get_running_loop().time()
            raise

    async def _acknowledge(self, seq: int) -> None:
        await self._writer.run(lambda store: store.acknowledge(kind=self.kind, seq=seq))
        self._flushed = max(self._flushed, seq)

    def _met(self, incarnation: str) -> None:
        """Note which process answered."""
        if self._incarnation is None:
            self._incarnation = incarnation
            self.doubt.set()
        elif self._incarnation != incarnation:
            self._begin_again(incarnation)

    def _begin_again(self, incarnation: str) -> None:
        self._told, self._incarnation = min(self._told, self._flushed), incarnation
        self._wake.set()
        self.doubt.set()

    async def _set_problem(self, problem: str | None) -> None:
        self._problem = problem
        self._tries += 1
        await self._tell_changed()

    async def _tell_changed(self) -> None:
        self._promised = max(self._promised, self._told)
        async with self._changed:
            self._changed.notify_all()

    async def _asked(self, answer: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise IndexUnavailableError(f"the {self.kind} index", f"it did not answer within {ANSWER_S:g} s") from None


def chunks(ids: Iterable[VectorId]) -> Iterable[Sequence[VectorId]]:
    """Ids in portions of which an index is told at a time."""
    waiting = list(ids)
    return (waiting[begin : begin + BATCH] for begin in range(0, len(waiting), BATCH))
