"""The thread of a conversation's process that delivers its outbox, beside the turns."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import ray
from ray.exceptions import RayTaskError

from ..jobs.outbox import INDEX, Delivery, OutboxConsumer, OutboxWriter, consumer_places, label_of, load_consumers
from ..storage.directory_records import ConversationNote
from ..storage.errors import PerdureError, SettingsError, StorageError
from ..storage.outbox_records import OutboxCursor, ParkedMessage
from ..storage.records import ConversationIdentity, StoredMessage
from ..storage.settings import OutboxSettings
from .activity import Activity, PassivatedError
from .metrics import OUTBOX_MESSAGES
from .tally import Tally
from .task_errors import cause_of

if TYPE_CHECKING:
    from ..storage.conversation_reader import ConversationReader
    from ..storage.conversation_store import ConversationStore

QUIET_S = 0.5
"""So long no turn may have come before the runtime's own consumer has its turn again: indexing is work that turns
need not wait for, and what comes together costs one commit."""
LATEST_S = 5.0
"""After which it has its turn in any case; and at once, if it had none for so long."""
INDEX_LOOK_S = 0.3
"""How often it is looked whether the indexes are made."""
ANEW_LOOK_S = 5.0
"""How often it is looked, where nothing is to be delivered, whether the indexes have been made anew."""
AFTER_ERROR_S = 1.0
BUSY_AT_MOST_S = 60.0
"""A consumer that takes longer with a batch does not keep its conversation's process from ending."""

logger = logging.getLogger(__name__)


class CommittedState:
    """What has been committed, read through a cursor of the delivering thread's own."""

    def __init__(self, reader: ConversationReader) -> None:
        self._reader = reader

    def cursor(self, kind: str) -> OutboxCursor:
        """How far a consumer is."""
        return self._reader.outbox.cursor(kind)

    def messages(self, from_seq: int, count: int) -> Sequence[StoredMessage]:
        """Messages from a place on, oldest first."""
        return self._reader.messages.between(from_seq, from_seq + count - 1)


class MessageIndexing(Protocol):
    """The runtime's own consumer, of which there is another one for each making of its indexes."""

    def kind(self) -> str | None:
        """The one that is there now, as cursors know it; None while its indexes are being made.

        Raises:
            PerdureError: That cannot be told now.
        """
        ...

    def consumer(self, kind: str) -> OutboxConsumer:
        """The one of a kind."""
        ...


class CursorWriter:
    """Has cursors moved by the thread that writes everything else: by calls to the own actor."""

    def __init__(self, activity: Activity, tally: Tally) -> None:
        self._activity = activity
        self._tally = tally
        self._delivered: dict[str, int] = {}
        """By consumer: how far it was before; its cursor is always moved before the first delivery."""
        self._myself: Any = ray.get_runtime_context().current_actor

    def move(self, kind: str, cursor: OutboxCursor) -> None:
        """Set a consumer's cursor."""
        self._ask(lambda: self._myself.move_outbox_cursor.remote(kind, cursor))
        delivered = cursor.delivered_seq - self._delivered.get(kind, cursor.delivered_seq)
        if delivered:
            self._tally.count(OUTBOX_MESSAGES, label_of(kind), "delivered", by=delivered)
        self._delivered[kind] = cursor.delivered_seq

    def park(self, kind: str, message: StoredMessage, attempts: int, error: str) -> None:
        """Put a message aside and move the cursor past it."""
        parked = ParkedMessage(
            kind=kind,
            seq=message.seq,
            message_id=message.message_id,
            attempts=attempts,
            error=error,
            parked_at=datetime.now(UTC),
        )
        self._ask(lambda: self._myself.park_message.remote(parked))
        self._tally.count(OUTBOX_MESSAGES, label_of(kind), "parked")
        self._delivered[kind] = message.seq

    def _ask(self, request: Callable[[], Any]) -> None:
        try:
            with self._activity.own_call():
                ray.get(request())
        except RayTaskError as error:
            raise cause_of(error) from None


class Pace:
    """When work that may wait is due: at once after a long pause, else once nothing new has come for a while."""

    def __init__(self) -> None:
        self._newest = self._done_at = -math.inf
        self._oldest: float | None = None

    def begin(self, at: float) -> None:
        """Something new has come, at a moment of a monotonic clock, in seconds."""
        self._newest = at
        if self._oldest is None:
            self._oldest = at

    def end(self, at: float) -> None:
        """All that has come so far is being done."""
        self._oldest, self._done_at = None, at

    def rest_s(self, at: float) -> float:
        """Seconds until it is due; 0 or less: now."""
        if self._oldest is None or at - self._done_at >= LATEST_S:
            return 0.0
        return min(self._newest + QUIET_S, self._oldest + LATEST_S) - at


class OutboxWorker:
    """Delivers when it is woken, and again while something is left.

    The runtime's own consumer has its turn when the conversation is quiet or it had none for long, unless somebody
    waits for it.
    """

    def __init__(
        self,
        settings: OutboxSettings,
        reading: Callable[[], AbstractContextManager[tuple[ConversationReader, ConversationIdentity]]],
        writer: OutboxWriter,
        tally: Tally,
        indexing: MessageIndexing,
        is_indexed: Callable[[], bool],
    ) -> None:
        """`is_indexed`: are messages of this conversation to be found? Asked before each pass, where they may be."""
        self._settings = settings
        self._tally = tally
        self._reading = reading
        self._writer = writer
        self._indexing = indexing
        self._is_indexed = is_indexed
        self._own: tuple[str, ...] = ()
        with suppress(SettingsError):  # `connect` refuses it; a constructor never raises
            self._own = tuple(consumer_places(settings))
        self._kinds = (INDEX, *self._own) if settings.index else self._own
        self._deliveries: dict[str, Delivery] = {}
        self._last_depths: Mapping[str, int] = {}
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._pace = Pace()
        self._changed = threading.Condition()
        self._passes = 0
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    @property
    def is_needed(self) -> bool:
        """May anybody follow the messages?"""
        return self._settings.index or bool(self._own)

    def start(self) -> None:
        """Begin with what an earlier process left; without a consumer, nothing ever runs."""
        if self.is_needed:
            self.wake()
            self._thread.start()

    def wake(self) -> None:
        """There may be new messages."""
        self._pace.begin(time.monotonic())
        self._wake.set()

    @property
    def is_delivering(self) -> bool:
        """Is a consumer at work on a batch?"""
        since = self._busy_since
        return since is not None and time.monotonic() - since < BUSY_AT_MOST_S

    @property
    def last_depths(self) -> Mapping[str, int]:
        """As `depths`, at the end of the last pass."""
        return self._last_depths

    def drain(self, timeout_s: float) -> None:
        """Wait until a pass over all consumers, begun after this call, has come to its end: drained, or postponed."""
        if not self.is_needed:
            return
        with self._changed:
            target = self._passes + (1 if self._busy_since is None else 2)
            self._hurry.set()
            self._wake.set()
            self._changed.wait_for(lambda: self._passes >= target, timeout_s)

    def depths(self, reader: ConversationReader) -> dict[str, int]:
        """By consumer: messages that it has not had yet."""
        last = reader.messages.count() - 1
        return {label_of(kind): last - reader.outbox.cursor(kind).delivered_seq for kind in self._kinds}

    def note(self, store: ConversationStore) -> ConversationNote:
        """What the directory is told when the process ends."""
        reader = store.reader()
        depths = self.depths(reader)
        return ConversationNote(
            messages=store.message_count(),
            open_turns=len(store.open_turns()),
            outbox_pending=max(depths.values(), default=0),
            outbox_parked=len(reader.outbox.parked()),
            drained_kinds=tuple(kind for kind in self._kinds if depths[label_of(kind)] == 0),
        )

    def retry_parked(self, store: ConversationStore) -> int:
        """Hand the parked messages over once more; how many were taken. Those that were not stay parked."""
        taken = 0
        for parked in store.reader().outbox.parked():
            delivery = self._deliveries.get(parked.kind)
            if delivery is not None and delivery.take(store.message_at(parked.seq)):
                store.remove_parked_message(kind=parked.kind, seq=parked.seq)
                self._tally.count(OUTBOX_MESSAGES, label_of(parked.kind), "delivered")
                taken += 1
        return taken

    def _run(self) -> None:
        pause_s: float | None = None
        while True:
            is_woken = self._wake.wait(ANEW_LOOK_S if pause_s is None else pause_s)
            if not is_woken and pause_s is None and not self._is_index_another():
                continue
            if not self._own:
                self._wait_until_quiet()
            with self._changed:
                is_urgent = self._hurry.is_set()
                self._hurry.clear()
                self._wake.clear()
                self._busy_since = time.monotonic()
            try:
                pause_s = self._pass(is_urgent=is_urgent)
            except PassivatedError:
                return
            except StorageError as error:
                logger.warning("the outbox waits: %s", error)
                pause_s = AFTER_ERROR_S
            except PerdureError:
                logger.exception("the outbox cannot be delivered")
                pause_s = self._settings.longest_pause_s
            finally:
                with self._changed:
                    self._busy_since = None
                    self._passes += 1
                    self._changed.notify_all()

    def _is_index_another(self) -> bool:
        """Have the indexes been made anew since the last pass, which went to its end?"""
        return any(label_of(kind) == INDEX and kind != self._current_index() for kind in self._kinds)

    def _wait_until_quiet(self) -> None:
        while (rest_s := self._pace.rest_s(time.monotonic())) > 0 and not self._hurry.wait(rest_s):
            pass

    def _pass(self, *, is_urgent: bool) -> float | None:
        """Deliver all that can be delivered; how long to wait before what is left, None when nothing is."""
        index = self._current_index() if self._settings.index and self._is_indexed() else None
        self._kinds = self._own if index is None else (index, *self._own)
        if not self._kinds:
            self._last_depths = {}
            return None
        pauses: list[float | None] = []
        if index == INDEX:
            pauses.append(INDEX_LOOK_S)
        elif index is not None:
            rest_s = self._pace.rest_s(time.monotonic())
            if is_urgent or rest_s <= 0:
                self._pace.end(time.monotonic())
                pauses.append(self._deliver(self._to_index(index)))
            else:
                pauses.append(rest_s)
        try:
            pauses += [self._deliver(delivery) for delivery in self._to_own()]
        except SettingsError:
            logger.exception("the outbox cannot be delivered")
            pauses.append(self._settings.longest_pause_s)
        with self._reading() as (reader, _):
            self._last_depths = self.depths(reader)
        return min((pause_s for pause_s in pauses if pause_s is not None), default=None)

    def _current_index(self) -> str:
        """The runtime's own consumer; `INDEX`, which nothing is delivered to, while its indexes are being made."""
        try:
            return self._indexing.kind() or INDEX
        except PerdureError as error:
            logger.info("the messages wait to be indexed: %s", error)
            return INDEX

    def _to_index(self, kind: str) -> Delivery:
        if kind not in self._deliveries:
            self._add({kind: self._indexing.consumer(kind)})
        return self._deliveries[kind]

    def _to_own(self) -> Sequence[Delivery]:
        if not all(kind in self._deliveries for kind in self._own):
            self._add(load_consumers(self._settings))
        return [self._deliveries[kind] for kind in self._own]

    def _add(self, consumers: Mapping[str, OutboxConsumer]) -> None:
        with self._reading() as (_, conversation):
            self._deliveries |= {
                kind: Delivery(kind, consumer, conversation, self._settings) for kind, consumer in consumers.items()
            }

    def _deliver(self, delivery: Delivery) -> float | None:
        while True:
            self._busy_since = time.monotonic()
            with self._reading() as (reader, _):
                progress = delivery.step(CommittedState(reader), self._writer)
            if progress == "drained":
                return None
            if progress == "postponed":
                return delivery.pause_s
