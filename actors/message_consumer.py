"""What has a conversation's messages indexed: a consumer of its outbox that hands them to the memory process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..jobs.outbox import index_kind
from ..jobs.recalled_messages import is_spoken
from ..storage.errors import IndexUnavailableError, PerdureError
from ..storage.layout import index_path
from ..storage.message_generation import message_generation
from ..storage.records import ConversationIdentity, StoredMessage
from .placement import RuntimePlace, memory_actor
from .singleton_client import SingletonClient

if TYPE_CHECKING:
    from ..storage.conversation_reader import ConversationReader

ANSWER_S = 30.0
"""For a batch. Longer, and it comes again: what was embedded by then is not embedded again."""
LOOKED_BACK = 50
"""Rows before a batch among which the messages before it are looked for; tool rounds stand between them."""


class MessageIndexing:
    """Has messages indexed; see `outbox_worker.MessageIndexing`."""

    def __init__(
        self,
        place: RuntimePlace,
        reading: Callable[[], AbstractContextManager[ConversationReader]],
    ) -> None:
        """`reading` gives a reader that no other thread has."""
        self._folder = index_path(place.data_dir)
        self._reading = reading
        self._memory = SingletonClient("memory", lambda: memory_actor(place), ANSWER_S)

    def kind(self) -> str | None:
        """The consumer of the indexes that are there; the process that makes them is asked only where there are none.

        Raises:
            PerdureError: It does not answer.
        """
        generation = message_generation(self._folder) or self._memory.call("message_generation")
        return None if generation is None else index_kind(generation)

    def consumer(self, kind: str) -> MessageConsumer:
        """The consumer of a kind."""
        return MessageConsumer(kind, self._memory, self._reading)


class MessageConsumer:
    """An `OutboxConsumer` that takes messages once both indexes, of one making, have them on disk."""

    def __init__(
        self,
        kind: str,
        memory: SingletonClient,
        reading: Callable[[], AbstractContextManager[ConversationReader]],
    ) -> None:
        self._kind = kind
        self._memory = memory
        self._reading = reading

    def deliver(self, conversation: ConversationIdentity, messages: Sequence[StoredMessage]) -> None:
        """See `OutboxConsumer`. An index that is damaged, or a model that has no key, is waited for, too."""
        spoken = [message for message in messages if is_spoken(message)]
        if not spoken:
            return
        with self._reading() as reader:
            before = list(filter(is_spoken, reader.messages.page_before(spoken[0].seq, LOOKED_BACK)))
        try:
            self._memory.call("index_messages", self._kind, conversation, spoken, before)
        except PerdureError as error:
            if error.retryable:
                raise
            raise IndexUnavailableError("the index of messages", str(error)) from error
