"""The thread of a conversation's process that delivers its outbox, beside the turns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayTaskError

from ..jobs.outbox import Delivery, OutboxWriter, consumer_places, load_consumers
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
            self._tally.count(OUTBOX_MESSAGES, kind, "delivered", by=delivered)
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
        self._tally.count(OUTBOX_MESSAGES, kind, "parked")
        self._delivered[kind] = message.seq

    def _ask(self, request: Callable[[], Any]) -> None:
        try:
            with self._activity.own_call():
                ray.get(request())
        except RayTaskError as error:
            raise cause_of(error) from None


class OutboxWorker:
    """Delivers when it is woken, and again while something is left."""

    def __init__(
        self,
        settings: OutboxSettings,
        reading: Callable[[], AbstractContextManager[tuple[ConversationReader, ConversationIdentity]]],
        writer: OutboxWriter,
        tally: Tally,
    ) -> None:
        self._settings = settings
        self._tally = tally
        self._reading = reading
        self._writer = writer
        self._kinds: tuple[str, ...] = ()
        with suppress(SettingsError):  # `connect` refuses it; a constructor never raises
            self._kinds = tuple(consumer_places(settings))
        self._deliveries: list[Delivery] = []
        self._last_depths: Mapping[str, int] = {}
        self._wake = threading.Event()
        self._changed = threading.Condition()
        self._passes = 0
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    @property
    def is_needed(self) -> bool:
        """Does anybody follow the messages?"""
        return bool(self._kinds)

    def start(self) -> None:
        """Begin with what an earlier process left; without a consumer, nothing ever runs."""
        if self.is_needed:
            self._wake.set()
            self._thread.start()

    def wake(self) -> None:
        """There may be new messages."""
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
            self._wake.set()
            self._changed.wait_for(lambda: self._passes >= target, timeout_s)

    def depths(self, reader: ConversationReader) -> dict[str, int]:
        """By consumer: messages that it has not had yet."""
        last = reader.messages.count() - 1
        return {kind: last - reader.outbox.cursor(kind).delivered_seq for kind in self._kinds}

    def note(self, store: ConversationStore) -> ConversationNote:
        """What the directory is told when the process ends."""
        reader = store.reader()
        depths = self.depths(reader)
        return ConversationNote(
            messages=store.message_count(),
            open_turns=len(store.open_turns()),
            outbox_pending=max(depths.values(), default=0),
            outbox_parked=len(reader.outbox.parked()),
            drained_kinds=tuple(kind for kind, depth in depths.items() if depth == 0),
        )

    def retry_parked(self, store: ConversationStore) -> int:
        """Hand the parked messages over once more; how many were taken. Those that were not stay parked."""
        taken = 0
        for parked in store.reader().outbox.parked():
            delivery = next((one for one in self._deliveries if one.kind == parked.kind), None)
            if delivery is not None and delivery.take(store.message_at(parked.seq)):
                store.remove_parked_message(kind=parked.kind, seq=parked.seq)
                self._tally.count(OUTBOX_MESSAGES, parked.kind, "delivered")
                taken += 1
        return taken

    def _run(self) -> None:
        pause_s: float | None = None
        while True:
            self._wake.wait(pause_s)
            self._wake.clear()
            self._busy_since = time.monotonic()
            try:
                pause_s = self._pass()
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

    def _pass(self) -> float | None:
        """Deliver all that can be delivered; how long to wait before what is left, None when nothing is."""
        if not self._deliveries:
            with self._reading() as (_, conversation):
                self._deliveries = [
                    Delivery(kind, consumer, conversation, self._settings)
                    for kind, consumer in load_consumers(self._settings).items()
                ]
        pauses = [pause_s for delivery in self._deliveries if (pause_s := self._deliver(delivery)) is not None]
        with self._reading() as (reader, _):
            self._last_depths = self.depths(reader)
        return min(pauses, default=None)

    def _deliver(self, delivery: Delivery) -> float | None:
        while True:
            self._busy_since = time.monotonic()
            with self._reading() as (reader, _):
                progress = delivery.step(CommittedState(reader), self._writer)
            if progress == "drained":
                return None
            if progress == "postponed":
                return delivery.pause_s
