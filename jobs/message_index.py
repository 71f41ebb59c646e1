"""Messages in the vector and the keyword index, and their recall from there: by meaning, by words, or by both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ..storage.errors import EmbeddedModelError, IndexDamagedError, IndexUnavailableError, ModelError, PerdureError
from ..storage.index_records import IndexHit, SourceId
from ..storage.index_scope import IndexScope
from ..storage.records import ConversationIdentity, StoredMessage
from ..storage.settings import RecallSettings
from ..storage.text import clean_text
from .embedder import EmbeddedText
from .index_access import EmbeddingAccess, IndexAccess, Query_contra, Row_contra, SearchAnswer, TextAccess, VectorAccess
from .indexed_message import IndexedMessage, indexed_messages
from .memory_feeds import ValueVectors
from .message_query import MessageQuery, SearchMode
from .recall import channel_weights, fused_score
from .recalled import Channel, ChannelRank
from .recalled_messages import MessageHit, RecalledMessages, SaidMessage

CHANNELS: Mapping[SearchMode, tuple[Channel, ...]] = {
    "semantic": ("vector",),
    "keyword": ("keyword",),
    "hybrid": ("vector", "keyword"),
}
EMBEDDED_AT_ONCE = 2
"""Texts that wait for the embedder at a time: a query that comes meanwhile waits for so many only."""
VECTOR_HITS = 50
"""The nearest messages that take part in the fusion. The keyword channel's are `recall.keyword_hits`."""
HARMLESS = "Hello"
"""A text that every embedder takes, given that its key, its name and its address are right."""
TRIES = 3
"""At an index whose process dies between what it is told and its being on disk."""

logger = logging.getLogger(__name__)


class MessageIndexer:
    """The messages of all conversations. All methods run in one event loop."""

    def __init__(
        self, vector: VectorAccess, keyword: TextAccess, embedder: EmbeddingAccess, settings: RecallSettings
    ) -> None:
        self._vector = vector
        self._keyword = keyword
        self._embedder = embedder
        self._vectors = ValueVectors(embedder)  # what comes again after a failure is not embedded again
        self._settings = settings
        self._embedding = asyncio.Semaphore(EMBEDDED_AT_ONCE)

    async def prepare(self) -> bool:
        """Have all that indexing takes begun, so that no message need wait for it. Is the vector index there, too?

        Raises:
            IndexDamagedError: One of them has to be made anew.
            PerdureError: The keyword index, which has what is recalled, cannot be used.
        """
        _, vector = await asyncio.gather(self._keyword.flush(), self._vector_is_there(self._vector.flush))
        return vector

    async def rebuild(self) -> bool:
        """Make both indexes anew, empty; as `prepare`."""
        _, vector = await asyncio.gather(self._keyword.rebuild(), self._vector_is_there(self._vector.rebuild))
        return vector

    async def _vector_is_there(self, begin: Callable[[], Awaitable[str]]) -> bool:
        try:
            await asyncio.gather(begin(), self._embedder.embed_value(HARMLESS))
        except IndexDamagedError:
            raise
        except PerdureError as error:
            logger.warning("messages cannot be indexed by their vectors yet: %s", error)
            return False
        return True

    async def index(
        self,
        conversation: ConversationIdentity,
        messages: Sequence[StoredMessage],
        before: Sequence[StoredMessage],
    ) -> None:
        """Have messages found: both indexes hold them on disk on return. May be repeated.

        One that the embedder will not take is found by its words only.

        Args:
            before: What stands before the first of them, oldest first.

        Raises:
            PerdureError: An index, or the embedder, cannot be used now. The other index may have taken them.
        """
        indexed = list(indexed_messages(conversation, messages, before))
        if not indexed:
            return
        told = (self._index_words(indexed), self._index_vectors(indexed))
        outcomes = await asyncio.gather(*told, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _index_words(self, indexed: Sequence[IndexedMessage]) -> None:
        await _put(self._keyword, [each.text_row for each in indexed], "the keyword index of messages")

    async def _index_vectors(self, indexed: Sequence[IndexedMessage]) -> None:
        embedded = await asyncio.gather(*(self._embedded(each) for each in indexed))
        rows = [each.vector_row(text.vectors) for each, text in zip(indexed, embedded, strict=True) if text is not None]
        if rows:
            await _put(self._vector, rows, "the vector index of messages")

    async def _embedded(self, each: IndexedMessage) -> EmbeddedText | None:
        async with self._embedding:
            try:
                return await self._vectors.of(clean_text(each.vector_text))
            except ModelError as error:
                if error.retryable or isinstance(error, EmbeddedModelError):
                    raise
                await self._embedder.embed_value(HARMLESS)  # refused as well, it is not the message's fault
                logger.warning("message %s is found by its words only: %s", each.message.message_id, error)
                return None

    async def search(self, query: MessageQuery) -> RecalledMessages:
        """The messages that answer a query, best first, fused by reciprocal rank.

        Raises:
            PerdureError: What was found cannot be read from the keyword index, which has the messages' text.
        """
        text = clean_text(query.text)
        if not text.strip():
            return RecalledMessages()
        scope = _scope(query)

        async def by_vector() -> SearchAnswer:
            limit = max(VECTOR_HITS, query.limit)
            return await self._vector.search(await self._embedder.embed_query(text), scope, limit)

        async def by_keyword() -> SearchAnswer:
            return await self._keyword.search(text, scope, max(self._settings.keyword_hits, query.limit))

        searches: Mapping[Channel, Callable[[], Awaitable[SearchAnswer]]] = {
            "vector": by_vector,
            "keyword": by_keyword,
        }
        found: dict[Channel, Sequence[IndexHit]] = {}
        unanswered: dict[Channel, str] = {}

        async def ask(channel: Channel) -> None:
            try:
                async with asyncio.timeout(self._settings.channel_timeout_s):
                    found[channel] = (await searches[channel]()).hits
            except TimeoutError:
                unanswered[channel] = f"it did not answer within {self._settings.channel_timeout_s:g} s"
            except PerdureError as error:
                unanswered[channel] = str(error)

        await asyncio.gather(*(ask(channel) for channel in CHANNELS[query.mode]))
        best = self._fused(found)[: query.limit]
        kept = await self._keyword.payloads([source for source, _, _ in best]) if best else {}
        hits = [
            MessageHit(message=SaidMessage.from_json(kept[source]), score=score, ranks=ranks)
            for source, score, ranks in best
            if source in kept
        ]
        return RecalledMessages(hits=tuple(hits), unanswered=unanswered)

    def _fused(
        self, found: Mapping[Channel, Sequence[IndexHit]]
    ) -> list[tuple[SourceId, float, tuple[ChannelRank, ...]]]:
        weights = channel_weights(self._settings)
        ranks: dict[SourceId, tuple[ChannelRank, ...]] = {}
        for channel, hits in found.items():
            for rank, hit in enumerate(hits, start=1):
                place = ChannelRank(channel=channel, rank=rank, relevance=hit.score)
                ranks[hit.source] = (*ranks.get(hit.source, ()), place)
        scored = [
            (source, fused_score(places, weights, self._settings.rank_constant), places)
            for source, places in ranks.items()
        ]
        return sorted(scored, key=lambda each: (-each[1], each[0]))


async def _put(index: IndexAccess[Row_contra, Query_contra], rows: Sequence[Row_contra], name: str) -> None:
    """Have rows on disk."""
    for _ in range(TRIES):
        if await index.apply(rows, []) == await index.flush():
            return
    raise IndexUnavailableError(name, "its process has died again and again; the messages come again")


def _scope(query: MessageQuery) -> IndexScope:
    return IndexScope(
        agent=query.agent,
        contacts=query.contacts,
        with_agent_wide=query.contacts is None,
        conversations=query.conversations,
        roles=None if query.role is None else (query.role,),
    )
