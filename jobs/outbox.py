"""The outbox: a conversation's messages delivered in order to those that follow them, at least once.

Delivery runs beside the turns: it reads what is committed, hands it over, and only then moves the cursor. A
message is known by its conversation and its id, so a consumer that gets one twice takes it once.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from ..storage.errors import PerdureError, SettingsError
from ..storage.outbox_records import OutboxCursor
from ..storage.records import ConversationIdentity, StoredMessage
from ..storage.settings import OutboxSettings
from ..storage.text import clean_text, cut_text

INDEX = "index"
"""The consumer that comes with the runtime: it has messages found by `recall_conversation`."""
FIRST_PAUSE_S = 0.2
MAX_ERROR_CHARS = 500
RETRYABLE = (ConnectionError, TimeoutError)
"""Beside our own errors that say so: the consumer cannot be reached, which says nothing about the message."""

logger = logging.getLogger(__name__)

Progress = Literal["drained", "delivered", "postponed"]


class OutboxConsumer(Protocol):
    """Follows the messages of all conversations."""

    def deliver(self, conversation: ConversationIdentity, messages: Sequence[StoredMessage]) -> None:
        """Take some messages of a conversation, oldest first; they count as delivered when this returns.

        The same may come again after a crash, so it has to be idempotent by conversation and `message_id`. It may
        be called by several processes at once, for different conversations.

        Raises:
            PerdureError, ConnectionError, TimeoutError: A retryable one: it takes nothing now and is asked again,
                for as long as it takes.
            Exception: Any other counts against the message; one that fails `outbox.max_attempts` times is parked.
        """
        ...


class OutboxState(Protocol):
    """What has been committed; read by the delivering thread."""

    def cursor(self, kind: str) -> OutboxCursor:
        """How far a consumer is."""
        ...

    def messages(self, from_seq: int, count: int) -> Sequence[StoredMessage]:
        """Messages from a place on, oldest first."""
        ...


class OutboxWriter(Protocol):
    """Moves cursors; every write is durable when it returns."""

    def move(self, kind: str, cursor: OutboxCursor) -> None:
        """Set a consumer's cursor."""
        ...

    def park(self, kind: str, message: StoredMessage, attempts: int, error: str) -> None:
        """Put a message aside and move the cursor past it."""
        ...


class Delivery:
    """Delivers one conversation's messages to one consumer. One thread calls `step`; any may call `take`."""

    def __init__(
        self, kind: str, consumer: OutboxConsumer, conversation: ConversationIdentity, settings: OutboxSettings
    ) -> None:
        self.kind = kind
        self._consumer = consumer
        self._conversation = conversation
        self._settings = settings
        self._is_first = True
        self._one_by_one_to = -1
        self._failures = 0
        self._handing_over = threading.Lock()  # a consumer gets one conversation's messages one after the other

    @property
    def pause_s(self) -> float:
        """How long to wait after a `postponed` step."""
        doublings = min(max(0, self._failures - 1), 20)
        return min(FIRST_PAUSE_S * float(2**doublings), self._settings.longest_pause_s)

    def step(self, state: OutboxState, writer: OutboxWriter) -> Progress:
        """Deliver the next messages, a batch at most."""
        cursor = state.cursor(self.kind)
        is_suspect = cursor.attempts > 0 or cursor.delivered_seq < self._one_by_one_to
        messages = state.messages(cursor.delivered_seq + 1, 1 if is_suspect else self._settings.batch)
        if not messages:
            return "drained"
        if cursor.attempts >= self._settings.max_attempts:
            writer.park(self.kind, messages[0], cursor.attempts, "its process died whenever it was delivered")
            return "delivered"
        if self._is_first:  # an earlier process may have died of this very message, which is seen by the count only
            self._is_first = False
            cursor = OutboxCursor(delivered_seq=cursor.delivered_seq, attempts=cursor.attempts + 1)
            writer.move(self.kind, cursor)
            return self._hand_over(cursor, messages, writer, counted=1)
        return self._hand_over(cursor, messages, writer, counted=0)

    def take(self, message: StoredMessage) -> bool:
        """Hand one message over, outside of the order; was it taken?"""
        try:
            with self._handing_over:
                self._consumer.deliver(self._conversation, [message])
        except Exception as error:  # noqa: BLE001  a user's consumer may raise anything
            logger.warning("consumer %s could not take message %s: %s", self.kind, message.message_id, _told(error))
            return False
        return True

    def _hand_over(
        self, cursor: OutboxCursor, messages: Sequence[StoredMessage], writer: OutboxWriter, *, counted: int
    ) -> Progress:
        try:
            with self._handing_over:
                self._consumer.deliver(self._conversation, messages)
        except Exception as error:  # noqa: BLE001  a user's consumer may raise anything
            self._failures += 1
            attempts = cursor.attempts - counted
            if not _is_retryable(error):
                if len(messages) > 1:  # one of them is to blame
                    self._one_by_one_to = messages[-1].seq
                else:
                    attempts += 1
            if attempts >= self._settings.max_attempts:
                writer.park(self.kind, messages[0], attempts, _told(error))
                self._failures = 0
                return "delivered"
            if attempts != cursor.attempts:
                writer.move(self.kind, OutboxCursor(delivered_seq=cursor.delivered_seq, attempts=attempts))
            return "postponed"
        self._failures = 0
        writer.move(self.kind, OutboxCursor(delivered_seq=messages[-1].seq))
        return "delivered"


def load_consumers(settings: OutboxSettings) -> Mapping[str, OutboxConsumer]:
    """The consumers that the settings name, by kind.

    Raises:
        SettingsError: One cannot be loaded here.
    """
    return {kind: _imported(kind, place) for kind, place in consumer_places(settings).items()}


def index_kind(generation: str) -> str:
    """The runtime's own consumer as cursors know it: another one for each making of its indexes."""
    return f"{INDEX}:{generation}"


def label_of(kind: str) -> str:
    """A consumer's name as it is shown."""
    return INDEX if kind.startswith(f"{INDEX}:") else kind


def consumer_kinds(settings: OutboxSettings) -> frozenset[str]:
    """The names of all that may follow messages, the runtime's own among them.

    Raises:
        SettingsError: As `consumer_places`.
    """
    return frozenset([*consumer_places(settings), *([INDEX] if settings.index else [])])


def consumer_places(settings: OutboxSettings) -> Mapping[str, str]:
    """Where each consumer's code is, by kind.

    Raises:
        SettingsError: An entry is not of the form `kind=package.module:attribute`, or its kind is taken.
    """
    places: dict[str, str] = {}
    for entry in settings.consumers:
        kind, _, place = entry.partition("=")
        module, _, attribute = place.partition(":")
        if not (kind and module and attribute):
            raise SettingsError(
                "outbox.consumers", f"{entry!r} names no consumer", "write kind=package.module:attribute"
            )
        if label_of(kind) == INDEX:
            raise SettingsError(
                "outbox.consumers", f"{kind!r} is the runtime's own consumer", "give yours another name"
            )
        if kind in places:
            raise SettingsError(
                "outbox.consumers", f"{kind!r} stands there twice", "give each consumer a name of its own"
            )
        places[kind] = place
    return places


def _imported(kind: str, place: str) -> OutboxConsumer:
    module_name, _, attribute = place.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        if isinstance(found, type) or not hasattr(found, "deliver"):
            found = found()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SettingsError(
            "outbox.consumers",
            f"{kind}={place} cannot be loaded ({reason})",
            "make it importable where conversations run",
        ) from error
    if not callable(getattr(found, "deliver", None)):
        raise SettingsError(
            "outbox.consumers",
            f"{kind}={place} is a {type(found).__name__} without `deliver`",
            "name an OutboxConsumer",
        )
    return found  # type: ignore[no-any-return]  # looked at above


def _is_retryable(error: Exception) -> bool:
    return error.retryable if isinstance(error, PerdureError) else isinstance(error, RETRYABLE)


def _told(error: Exception) -> str:
    return cut_text(clean_text(f"{type(error).__name__}: {error}"), MAX_ERROR_CHARS)
