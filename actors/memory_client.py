"""The memory process as a conversation sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ..jobs.memory_requests import KeyRecall, RecallQuery, Remember, Remembered
from ..jobs.message_query import MessageQuery
from ..jobs.recalled import Recalled
from ..jobs.recalled_messages import RecalledMessages
from ..storage.memory_keys import AgentId, Scope
from ..storage.memory_records import Memory, VersionId
from .placement import RuntimePlace, memory_actor
from .singleton_client import SingletonClient

ANSWER_S = 60.0


class MemoryClient:
    """A `TurnMemory` whose calls cross to another process, which may be restarting."""

    def __init__(self, place: RuntimePlace, check: Callable[[], None]) -> None:
        """`check` is called while it waits; what it raises ends the waiting."""
        self._memory = SingletonClient("memory", lambda: memory_actor(place), ANSWER_S, check)

    def remember(self, fact: Remember) -> Remembered:
        """See `TurnMemory`."""
        return cast(Remembered, self._memory.call("remember", fact))

    def forget(self, agent_id: AgentId, scope: Scope, key: str) -> VersionId | None:
        """See `TurnMemory`."""
        return cast("VersionId | None", self._memory.call("forget", agent_id, scope, key))

    def recall(self, query: RecallQuery) -> Recalled:
        """See `TurnMemory`."""
        return cast(Recalled, self._memory.call("recall", query))

    def recall_key(self, wanted: KeyRecall) -> Sequence[Memory]:
        """See `TurnMemory`."""
        return cast("Sequence[Memory]", self._memory.call("recall_key", wanted))

    def recall_messages(self, query: MessageQuery) -> RecalledMessages:
        """See `TurnMemory`."""
        return cast(RecalledMessages, self._memory.call("recall_messages", query))
