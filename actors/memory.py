"""The memory process: the owner of all memories, in front of the indexes that find them, and messages."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from ..jobs.clock import SystemClock
from ..jobs.outbox import index_kind
from ..storage.errors import FileInUseError, IndexDamagedError, IndexUnavailableError, PerdureError, StorageError
from ..storage.layout import index_path, memory_path
from ..storage.message_generation import (
    forget_message_generation,
    message_generation,
    note_message_generation,
)
from .opened import LOCK_POLL_S
from .placement import RuntimePlace

if TYPE_CHECKING:
    from ..jobs.memory_requests import Difference, KeyRecall, RecallQuery, Remember, Remembered
    from ..jobs.memory_service import MemoryService
    from ..jobs.message_index import MessageIndexer
    from ..jobs.message_query import MessageQuery
    from ..jobs.recalled import Recalled
    from ..jobs.recalled_messages import RecalledMessages
    from ..storage.memory_index_records import IndexKind, MemoryCounts
    from ..storage.memory_keys import AgentId, Scope, Visibility
    from ..storage.memory_records import Memory, MemoryFilter, MemoryId, MemoryOrder, VersionId
    from ..storage.memory_store import MemoryStore
    from ..storage.records import ConversationIdentity, StoredMessage

CLOSE_WAIT_S = 20.0
"""How long a file that has failed stays open for the calls under way: none takes longer but making an index anew."""

AGAIN_S = 1.0
"""Before the message indexes are begun again after a failure."""

logger = logging.getLogger(__name__)


class MemoryProcess:
    """Owner of `memory.duckdb`. Calls run side by side; writes that come together share a commit.

    A call that writes is durable on return, and may be repeated under the ids it carries. The file is opened with
    the first call; one that fails to open is tried again by the next.
    """

    def __init__(self, place: RuntimePlace) -> None:
        self._place = place
        self._indexes = index_path(place.data_dir)
        self._opening = asyncio.Lock()
        self._store: MemoryStore | None = None
        self._service: MemoryService | None = None
        self._indexer: MessageIndexer | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._users = 0
        """Calls that the service has under way."""
        self._unused = asyncio.Event()

    def __repr__(self) -> str:
        return f"Memory({self._place.data_dir})"

    async def remember(self, fact: Remember) -> Remembered:
        """See `MemoryService.remember`."""
        async with self._use() as service:
            return await service.remember(fact)

    async def forget(self, agent_id: AgentId, scope: Scope, key: str) -> VersionId | None:
        """See `MemoryService.forget`."""
        async with self._use() as service:
            return await service.forget(agent_id, scope, key)

    async def recall(self, query: RecallQuery) -> Recalled:
        """See `MemoryService.recall`."""
        async with self._use() as service:
            return await service.recall(query)

    async def recall_key(self, wanted: KeyRecall) -> Sequence[Memory]:
        """See `MemoryService.recall_key`."""
        async with self._use() as service:
            return await service.recall_key(wanted)

    async def get(self, visible: Visibility, memory_id: MemoryId) -> Memory | None:
        """See `MemoryService.get`."""
        async with self._use() as service:
            return await service.get(visible, memory_id)

    async def history(self, visible: Visibility, key: str) -> Sequence[Memory]:
        """See `MemoryService.history`."""
        async with self._use() as service:
            return await service.history(visible, key)

    async def page(
        self, visible: Visibility, wanted: MemoryFilter, order: MemoryOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        """See `MemoryService.page`."""
        async with self._use() as service:
            return await service.page(visible, wanted, order, limit, offset)

    async def counts(self) -> MemoryCounts:
        """See `MemoryService.counts`."""
        async with self._use() as service:
            return await service.counts()

    async def reindex(self, kind: IndexKind) -> int:
        """See `MemoryService.reindex`."""
        async with self._use() as service:
            return await service.reindex(kind)

    async def differences(self, repair: bool) -> Sequence[Difference]:
        """See `MemoryService.differences`."""
        async with self._use() as service:
            return await service.differences(repair=repair)

    async def problems(self) -> dict[IndexKind, str]:
        """See `MemoryService.problems`."""
        async with self._use() as service:
            return service.problems()

    async def message_generation(self) -> str | None:
        """The name of the message indexes that are there; None while they are being made."""
        self._prepare()
        return None if self._preparing is None or not self._preparing.done() else message_generation(self._indexes)

    async def reindex_messages(self, only: str | None = None) -> None:
        """Make the message indexes anew. They are empty on return, and every conversation begins to feed them again.

        Args:
            only: Leave them alone if their name is another one by now.

        Raises:
            PerdureError: They cannot be made now; they are as soon as they can.
        """
        if self._preparing is not None:
            await asyncio.wait([self._preparing])
        if only is not None and message_generation(self._indexes) != only:
            return
        self._preparing = asyncio.create_task(self._make_messages_ready(anew=True))
        await asyncio.wait([self._preparing])
        if message_generation(self._indexes) is None:
            raise IndexUnavailableError("the index of messages", "it could not be made; see the log of its process")

    async def index_messages(
        self,
        kind: str,
        conversation: ConversationIdentity,
        messages: Sequence[StoredMessage],
        before: Sequence[StoredMessage],
    ) -> None:
        """See `MessageIndexer.index`. Like the next, it needs the indexes and not the file of memories.

        Refused while they are being begun, or are others than those that are meant: whoever waited would keep its
        conversation's process from ending.
        """
        generation = await self.message_generation()
        if generation is None or index_kind(generation) != kind:
            raise IndexUnavailableError("the index of messages", "it is being made")
        try:
            await self._messages.index(conversation, messages, before)
        except IndexDamagedError as error:
            logger.warning("the indexes of messages are made anew: %s", error)
            await self.reindex_messages(only=generation)
            raise IndexUnavailableError("the index of messages", "it is being made anew") from error

    async def recall_messages(self, query: MessageQuery) -> RecalledMessages:
        """See `MessageIndexer.search`."""
        return await self._messages.search(query)

    async def pid(self) -> int:
        """This process."""
        return os.getpid()

    @property
    def _messages(self) -> MessageIndexer:
        if self._indexer is None:
            from ..jobs.message_index import MessageIndexer
            from .embedding_client import RemoteEmbedder
            from .index_client import RemoteIndex, RemoteTextIndex

            self._indexer = MessageIndexer(
                RemoteIndex(self._place, "vector", "message"),
                RemoteTextIndex(self._place, "message"),
                RemoteEmbedder(self._place),
                self._place.settings.recall,
            )
        return self._indexer

    def _prepare(self) -> None:
        """Whoever recalls is in a turn, and its messages are to be indexed soon."""
        if not self._place.settings.outbox.index:
            return
        if self._preparing is None or (self._preparing.done() and message_generation(self._indexes) is None):
            self._preparing = asyncio.create_task(self._make_messages_ready())

    async def _make_messages_ready(self, *, anew: bool = False) -> None:
        known = None if anew else message_generation(self._indexes)
        try:
            if known is None:
                self._indexes.mkdir(parents=True, exist_ok=True)
                forget_message_generation(self._indexes)
                has_vectors = await self._messages.rebuild()
            else:
                has_vectors = await self._messages.prepare()
            if known is None or has_vectors:
                note_message_generation(self._indexes, known or uuid4().hex[:12], has_vectors=has_vectors)
        except IndexDamagedError as error:
            logger.warning("the indexes of messages are made anew: %s", error)
            forget_message_generation(self._indexes)
        except (PerdureError, OSError) as error:
            logger.warning("messages are not indexed: %s", error)
            await asyncio.sleep(AGAIN_S)

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[MemoryService]:
        self._prepare()
        async with self._opening:
            if self._service is None:
                await self._open()
            service = self._service
            assert service is not None
            self._users += 1
            self._unused.clear()
        has_failed = False
        try:
            yield service
        except StorageError as error:
            has_failed = not isinstance(error, IndexUnavailableError)
            raise
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()
            if has_failed:
                await self._close(service)  # the database may have closed itself

    async def _open(self) -> None:
        from ..jobs.embedded_decisions import EmbeddedDecisions
        from ..jobs.memory_service import MemoryService
        from .embedding_client import RemoteEmbedder
        from .index_client import RemoteIndex

        self._store = await asyncio.to_thread(self._open_store)
        self._service = MemoryService(
            self._store,
            RemoteIndex(self._place, "vector", "memory"),
            RemoteIndex(self._place, "keyword", "memory"),
            RemoteEmbedder(self._place),
            EmbeddedDecisions(),
            SystemClock(),
            self._place.settings,
        )
        self._service.start()

    def _open_store(self) -> MemoryStore:
        from ..storage.memory_store import MemoryStore  # a driver loads this class too, and opens no database

        limit = time.monotonic() + self._place.settings.conversations.lock_wait_s
        while True:
            try:
                return MemoryStore.open(memory_path(self._place.data_dir), self._place.settings.memory)
            except FileInUseError:
                if time.monotonic() >= limit:
                    raise
                time.sleep(LOCK_POLL_S)

    async def _close(self, service: MemoryService) -> None:
        async with self._opening:
            if self._service is not service:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._unused.wait(), CLOSE_WAIT_S)  # what is under way has its own answer
            store, self._service, self._store = self._store, None, None
            try:
                await service.stop()
            except StorageError as error:
                logger.warning("the file of memories is opened anew: %s", error)
            if store is not None:
                await asyncio.to_thread(store.close)
