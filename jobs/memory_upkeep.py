"""What semantic memory does by itself, beside its calls: notes what was used, verifies what could not be, tidies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from ..storage.memory_keys import AgentId
from ..storage.memory_records import Memory, MemoryId
from ..storage.memory_store import MemoryStore
from ..storage.memory_write_records import Access
from ..storage.settings import MemorySettings
from .background import end, every
from .clock import Clock
from .memory_verifier import MemoryVerifier
from .memory_writer import MemoryWriter

ACCESS_FLUSH_S = 1.0
"""How long it takes at most until what was used is noted."""
TIDY_S = 2.0
"""How often the write-ahead log is looked at; and so long nothing may have been written."""
TIDY_BYTES = 1024 * 1024
"""The log's size from which folding it into the file is worth its time."""
PRUNE_S = 3600.0
KEPT_WRITE_IDS = timedelta(days=7)
"""So long a repeat of a write is known as one."""


class MemoryUpkeep:
    """Runs in the event loop of its service. What fails is logged and done again at its next time."""

    def __init__(
        self,
        writer: MemoryWriter,
        verifier: MemoryVerifier,
        verified: Callable[[], None],
        clock: Clock,
        settings: MemorySettings,
    ) -> None:
        """`verified` is called when something was verified late, which the indexes have to be told."""
        self._writer = writer
        self._verifier = verifier
        self._verified = verified
        self._clock = clock
        self._settings = settings
        self._accesses: dict[AgentId, dict[MemoryId, Access]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._tasks = [
            asyncio.create_task(every(ACCESS_FLUSH_S, "noting which memories were used", self.note_accesses)),
            asyncio.create_task(every(self._settings.verify_again_s, "late verification of memories", self._verify)),
            asyncio.create_task(every(TIDY_S, "folding the log of memories into their file", self._tidy)),
            asyncio.create_task(every(PRUNE_S, "forgetting old ids of writes", self._prune)),
        ]

    async def stop(self) -> None:
        """End, with what was used noted."""
        await end(*self._tasks)
        await self.note_accesses()

    def used(self, agent_id: AgentId, memories: Iterable[Memory], at: datetime) -> None:
        """Memories were used; noted soon, many together."""
        noted = self._accesses.setdefault(agent_id, {})
        for memory in memories:
            before = noted.get(memory.memory_id)
            times = 1 if before is None else before.times + 1
            noted[memory.memory_id] = Access(memory_id=memory.memory_id, times=times, at=at)

    async def note_accesses(self) -> None:
        """Store what was used since last time. What cannot be stored is lost: it is no more than something to rank by.

        Raises:
            StorageError: It was not stored.
        """
        accesses, self._accesses = self._accesses, {}
        for agent_id, noted in accesses.items():
            if noted:
                await self._writer.run(
                    lambda store, agent_id=agent_id, noted=noted: store.record_access(  # type: ignore[misc]
                        agent_id=agent_id, accesses=list(noted.values())
                    )
                )

    async def _verify(self) -> None:
        if await self._verifier.verify_later():
            self._verified()

    async def _tidy(self) -> None:
        if self._writer.wal_bytes > TIDY_BYTES and self._writer.idle_s > TIDY_S:
            await self._writer.run(MemoryStore.tidy)

    async def _prune(self) -> None:
        before = self._clock.now() - KEPT_WRITE_IDS
        await self._writer.run(lambda store: store.prune_writes(before=before))
