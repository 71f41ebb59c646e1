"""Semantic memory as a turn needs it; elsewhere, and perhaps away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ..storage.errors import PerdureError
from ..storage.memory_keys import AgentId, Scope, Visibility
from ..storage.memory_records import Memory, VersionId
from ..storage.records import ContactId
from .memory_requests import KeyRecall, RecallQuery, Remember, Remembered
from .message_query import MessageQuery
from .recalled import Recalled
from .recalled_messages import RecalledMessages

MAX_QUERY_CHARS = 2000
"""Of a message, for what it reminds of: its beginning."""

logger = logging.getLogger(__name__)


class TurnMemory(Protocol):
    """The memories of the runtime. Every call may be repeated.

    Raises:
        PerdureError: It cannot be done now, or not so.
    """

    def remember(self, fact: Remember) -> Remembered:
        """See `MemoryService.remember`."""
        ...

    def forget(self, agent_id: AgentId, scope: Scope, key: str) -> VersionId | None:
        """See `MemoryService.forget`."""
        ...

    def recall(self, query: RecallQuery) -> Recalled:
        """See `MemoryService.recall`."""
        ...

    def recall_key(self, wanted: KeyRecall) -> Sequence[Memory]:
        """See `MemoryService.recall_key`."""
        ...

    def recall_messages(self, query: MessageQuery) -> RecalledMessages:
        """See `MessageIndexer.search`."""
        ...


def recalled_for(
    memory: TurnMemory | None, agent_id: str | None, contact: ContactId | None, text: str
) -> Recalled | None:
    """What a message reminds of; None where the agent has no memory, or it cannot be asked: the turn goes on."""
    if memory is None or agent_id is None:
        return None
    visible = Visibility.of_contact(AgentId(agent_id), contact)
    try:
        return memory.recall(RecallQuery(visible=visible, text=text[:MAX_QUERY_CHARS]))
    except PerdureError as error:
        logger.warning("a turn of agent %s goes on without its memories: %s", agent_id, error)
        return None
