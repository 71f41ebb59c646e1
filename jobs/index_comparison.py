"""Finds out whether an index holds what it should, and sets it right: while it is told and searched as ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from ..storage.errors import IndexDamagedError, PerdureError
from ..storage.memory_keys import AgentId, VectorId
from .background import end, wait_at_most
from .index_feed import FIRST_PAUSE_S, IndexFeed, chunks
from .memory_requests import Difference

LONGEST_PAUSE_S = 60.0
"""Between tries of a comparison that fails."""

logger = logging.getLogger(__name__)


class IndexComparison:
    """Compares one index with the memories there are. Its methods run in the event loop of its feed."""

    def __init__(self, feed: IndexFeed[Any]) -> None:
        self._feed = feed
        self._comparing = asyncio.Lock()
        self._suspected: set[AgentId] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to compare whenever there is doubt, in the running event loop."""
        self._tasks = [asyncio.create_task(self._keep_comparing())]

    async def stop(self) -> None:
        """Compare no more."""
        await end(*self._tasks)

    def suspect(self, agent_id: AgentId) -> None:
        """A search among an agent's memories found the index damaged. It may have been the query's fault."""
        self._suspected.add(agent_id)
        self._feed.doubt.set()

    async def difference(self, *, repair: bool = False) -> Difference:
        """How the index differs from the memories there are; set right, if asked for."""
        async with self._comparing:
            try:
                return await self._difference(repair)
            except PerdureError as error:
                return Difference(kind=self._feed.kind, missing=0, surplus=0, problem=str(error))

    async def reindex(self) -> int:
        """Make the index anew from the memories there are; how many it was given.

        Raises:
            PerdureError: It cannot be used. What it lacks is put back as soon as it can.
        """
        async with self._comparing:
            return await self._reindex()

    async def _reindex(self) -> int:
        feed = self._feed
        feed.lacking = "it is being made anew"
        try:
            await feed.begin_anew()
            await feed.tell_parked_again()
            await self._difference(repair=True)
            return len(await feed.sources())
        except BaseException:
            feed.lacking = "it was not made anew to the end"
            feed.doubt.set()
            raise

    async def _difference(self, repair: bool) -> Difference:
        feed = self._feed
        found = await feed.sources()
        kept: set[VectorId] = set()
        after_row = 0
        while after_row >= 0:
            after_row, page = await feed.active_page(after_row)
            kept.update(memory.vector_id for memory in page)
        touched = await feed.touched()
        missing, surplus = kept - found - touched, found - kept - touched
        refused = {vector_id: reason for vector_id in missing if (reason := feed.refusal(vector_id)) is not None}
        if repair:
            await self._set_right(sorted(missing - refused.keys()) + sorted(surplus))
        return Difference(
            kind=feed.kind,
            missing=len(missing),
            surplus=len(surplus),
            problem=f"it cannot take {len(refused)} of them: {next(iter(refused.values()))}" if refused else None,
        )

    async def _set_right(self, ids: list[VectorId]) -> None:
        feed = self._feed
        if ids:
            logger.info("the %s index is set right: %d memories differ", feed.kind, len(ids))
        left = len(ids)
        for chunk in chunks(ids):
            feed.lacking = f"{left:,} memories are being put back into it"
            await feed.set_right(chunk)
            left -= len(chunk)
        if ids:
            await feed.flush()
        feed.lacking = None

    async def _keep_comparing(self) -> None:
        pause_s = FIRST_PAUSE_S
        with contextlib.suppress(PerdureError):
            await self._feed.tell_parked_again()
        while True:
            await self._feed.doubt.wait()
            self._feed.doubt.clear()
            try:
                async with self._comparing:
                    await self._settle()
                pause_s = FIRST_PAUSE_S
                continue
            except PerdureError as error:
                logger.warning("the %s index was not compared: %s", self._feed.kind, error)
            except Exception:
                logger.exception("the %s index was not compared", self._feed.kind)
            await self._pause(pause_s)
            self._feed.doubt.set()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _pause(self, pause_s: float) -> None:
        """Wait; no longer than the index is away, if that is why the comparison failed."""
        if self._feed.problem in (None, self._feed.lacking):
            await asyncio.sleep(pause_s)
            return
        await wait_at_most(self._feed.until_well(), pause_s)

    async def _settle(self) -> None:
        """Compare and set right; make it anew, if it cannot be read."""
        suspected = set(self._suspected)
        try:
            await self._difference(repair=True)
            for agent_id in suspected:
                await self._feed.probe(agent_id)
        except IndexDamagedError as error:
            logger.warning("the %s index is made anew: %s", self._feed.kind, error)
            await self._reindex()
        self._suspected -= suspected
