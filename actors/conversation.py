"""The actor of one conversation: a shell around `jobs.conversation`, with the file, the clock and Ray around it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import ray

from ..jobs.clock import SystemClock
from ..jobs.context import Context
from ..jobs.conversation import Conversation, ImportedMessage
from ..jobs.driver_turn import DriverTurnView, RanCall
from ..jobs.turn import AgentProfile, TurnRequest
from ..jobs.turn_events import TurnEvent
from ..storage.errors import ContactMismatchError, FencedError, FileMissingError, PerdureError
from ..storage.layout import conversation_path
from ..storage.outbox_records import OutboxCursor, ParkedMessage
from ..storage.records import ConversationIdentity, Reply, StoredMessage, TurnId, Usage, WorkingState
from .activation import Activation
from .activity import Activity, PassivatedError
from .calls import AgentSnapshot, Caller, Inspection
from .cancellation import CancelFlag
from .directory_client import DirectoryClient
from .live_marks import LiveMark, live_folder
from .memory_client import MemoryClient
from .message_consumer import MessageIndexing
from .metrics import ACTIVATIONS, ERRORS, PASSIVATIONS
from .metrics_report import MetricsReporter
from .models_client import PooledChat
from .opened import Opened
from .outbox_worker import CursorWriter, OutboxWorker
from .passivation import IdleWatch, exit_in_any_case, passivate_beyond_cap
from .placement import ConversationPlace, RuntimePlace
from .tally import Tally
from .tool_tasks import ToolTasks
from .turn_watch import TurnWatch, WatchedChat, WatchedTools

if TYPE_CHECKING:
    from ..storage.conversation_reader import ConversationReader

EXIT_S = 10.0
"""For Ray to end the process in order; it takes half a second."""

logger = logging.getLogger(__name__)


class ConversationProcess:
    """One conversation's only process.

    Calls of the default group come one at a time, in the order they arrive. Each is on disk when it returns,
    and idempotent under the ids it carries, so that it may be repeated after a crash. Calls meant for the
    `control` group (`inspect`, `history`, `working_state`, `cancel_running`) answer while a turn runs.
    """

    def __init__(self, place: RuntimePlace, where: ConversationPlace) -> None:
        self._place = place
        self._where = where
        self._clock = SystemClock()
        self._started_at = self._clock.now()
        self._cancel_flag = CancelFlag()
        self._tally = Tally()
        self._watch = TurnWatch(self._tally, where.agent)
        self._model = PooledChat(place, self._cancel_flag.check_running)
        self._tools = ToolTasks(place.settings.tools, self._cancel_flag.check_running)
        self._agent: AgentSnapshot | None = None
        self._is_tidying = False
        self._reading = threading.Lock()
        marks = live_folder(place.data_dir)
        self._mark = LiveMark(marks, where.actor_name)
        self._activity = Activity(self._mark)
        self._epoch = 0
        self._node_id = str(ray.get_runtime_context().get_node_id())
        self._directory = DirectoryClient(place)
        self._opened = Opened(self._open, place.settings.conversations.lock_wait_s)
        self._outbox = OutboxWorker(
            place.settings.outbox,
            self._read_outbox,
            CursorWriter(self._activity, self._tally),
            self._tally,
            MessageIndexing(place, self._read_alone),
            self._has_memory,
        )
        self._metrics = MetricsReporter(place, where.actor_name, self._tally, lambda: self._outbox.last_depths)
        # What goes wrong is raised by every call instead: a failing constructor would count as a death.
        with suppress(PerdureError), self._opened.use():
            pass
        self._outbox.start()
        self._metrics.start()
        self._idle_watch = IdleWatch(self._activity, marks, where.actor_name, place.settings.conversations)
        self._idle_watch.start()
        threading.Thread(
            target=passivate_beyond_cap,
            args=(marks, place.namespace, where.actor_name, place.settings.conversations),
            daemon=True,
        ).start()

    def __repr__(self) -> str:
        return f"Conversation({self._where.agent}/{self._where.conversation_id})"

    # Turns.

    def send(self, caller: Caller, turn_id: TurnId, text: str) -> Reply:
        """Execute a turn, or go on with it, or give its stored reply. See `TurnExecutor.run`."""
        with self._turn(caller, turn_id) as (live, agent):
            return live.conversation.send(TurnRequest(turn_id=turn_id, text=text, agent=agent))

    def stream(self, caller: Caller, turn_id: TurnId, text: str) -> Iterator[TurnEvent]:
        """As `send`, telling the turn's events. It runs to its end whether or not anybody listens."""
        with self._turn(caller, turn_id) as (live, agent):
            request = TurnRequest(turn_id=turn_id, text=text, agent=agent)
            for event in live.conversation.stream(request):  # noqa: UP028 - Ray sends into it; a plain iterator refuses
                yield event

    def begin_turn(self, caller: Caller, turn_id: TurnId, text: str) -> DriverTurnView:
        """Open a turn for the driver's own loop. See `DriverTurns.begin`."""
        with self._step(caller) as (live, agent):
            return live.conversation.driver_turns.begin(TurnRequest(turn_id=turn_id, text=text, agent=agent))

    def view_turn(self, caller: Caller, turn_id: TurnId) -> DriverTurnView:
        """A driver's open turn as it stands. See `DriverTurns.view`."""
        with self._step(caller) as (live, agent):
            return live.conversation.driver_turns.view(turn_id, agent)

    def record_tool_round(
        self, caller: Caller, turn_id: TurnId, text: str, ran: Sequence[RanCall], usage: Usage
    ) -> None:
        """Store a driver's tool round. See `DriverTurns.record_tool_round`."""
        with self._step(caller) as (live, _):
            live.conversation.driver_turns.record_tool_round(turn_id, text, ran, usage)

    def finish_turn(self, caller: Caller, turn_id: TurnId, text: str, usage: Usage) -> Reply:
        """End a driver's turn with its reply. See `DriverTurns.finish`."""
        with self._step(caller) as (live, _):
            return live.conversation.driver_turns.finish(turn_id, text, usage)

    def abandon_turn(self, caller: Caller, turn_id: TurnId) -> None:
        """Give an open turn up. See `DriverTurns.abandon`."""
        with self._step(caller) as (live, _):
            live.conversation.driver_turns.abandon(turn_id)

    def abandon_open_turns(self, caller: Caller) -> Sequence[TurnId]:
        """Give every open turn up."""
        with self._step(caller) as (live, _):
            return live.conversation.abandon_open_turns()

    # Beside the turns.

    def import_messages(self, caller: Caller, messages: Sequence[ImportedMessage]) -> int:
        """Append older history. See `Conversation.import_messages`."""
        with self._step(caller) as (live, _):
            return live.conversation.import_messages(messages)

    def context(self, caller: Caller, text: str) -> Context:
        """What the model would see of this message."""
        with self._step(caller) as (live, agent):
            return live.conversation.context(agent, text)

    def set_context(self, caller: Caller, notes: str, mode: str, change_id: str) -> WorkingState:
        """Change the working notes, once under this id."""
        with self._step(caller) as (live, _):
            return live.conversation.set_context(notes, mode, change_id)

    def set_ongoing_task(self, caller: Caller, task: str, change_id: str) -> WorkingState:
        """Set the ongoing task, once under this id."""
        with self._step(caller) as (live, _):
            return live.conversation.set_ongoing_task(task, change_id)

    def clear_ongoing_task(self, caller: Caller, change_id: str) -> WorkingState:
        """Clear the ongoing task, once under this id."""
        with self._step(caller) as (live, _):
            return live.conversation.clear_ongoing_task(change_id)

    def tidy(self) -> None:
        """Fold the write-ahead log into the file, away from any caller's path."""
        self._is_tidying = False
        self._activity.end_own_call()
        with self._opened.use() as live:
            live.store.tidy()

    def move_outbox_cursor(self, kind: str, cursor: OutboxCursor) -> None:
        """Note how far a consumer is; asked for by the thread that delivers."""
        with self._opened.use() as live:
            live.store.move_outbox_cursor(kind=kind, cursor=cursor)

    def park_message(self, parked: ParkedMessage) -> None:
        """Put a message aside that a consumer could not take; asked for by the thread that delivers."""
        with self._opened.use() as live:
            live.store.park_message(parked=parked)

    def retry_parked(self, caller: Caller) -> int:
        """Deliver the parked messages once more; how many were taken."""
        with self._step(caller) as (live, _):
            return self._outbox.retry_parked(live.store)

    def passivate(self, idle_s: float, *, asked_by_itself: bool = False) -> bool:
        """Write the conversation out and end this process, if it was idle for so long; else say False.

        A call that comes meanwhile is refused with `PassivatedError` and goes to the next process.
        """
        if self._has_fresh_turn() or self._outbox.is_delivering:
            self._idle_watch.look_soon()
            return False
        if not self._activity.begin_closing(idle_s, asked_by_itself=asked_by_itself):
            return False
        live = self._opened.current
        if live is not None:
            try:
                live.store.tidy()
                self._directory.note(self._where, self._epoch, self._outbox.note(live.store))
            except PerdureError as error:  # the next activation finds all as after a crash
                logger.warning("%r ends without having told the directory: %s", self, error)
        self._opened.end(PassivatedError())
        self._mark.remove()
        self._tally.count(PASSIVATIONS, self._where.agent)
        self._metrics.report()
        exit_in_any_case(EXIT_S)
        exit_actor: Any = ray.actor.exit_actor
        exit_actor()
        return True

    # In the control group.

    def drain_outbox(self, timeout_s: float) -> Mapping[str, int]:
        """Wait until the outbox has been delivered as far as it can be now; what is left, by consumer."""
        self._outbox.drain(timeout_s)
        with self._reading, self._opened.use() as live:
            return self._outbox.depths(live.reader)

    def cancel_running(self, _caller: Caller) -> TurnId | None:
        """Ask the running turn to end as abandoned; its id, or None when none is running."""
        return self._cancel_flag.request()

    def history(self, caller: Caller, limit: int, before_seq: int | None) -> Sequence[StoredMessage]:
        """The newest messages, or those before a place, oldest first."""
        with self._read(caller) as live:
            return live.reader.messages.page_before(before_seq, limit)

    def working_state(self, caller: Caller) -> WorkingState:
        """Notes and ongoing task."""
        with self._read(caller) as live:
            return live.reader.working_state()

    def inspect(self, caller: Caller | None) -> Inspection:
        """This process and its conversation, for a caller of it or for anybody; no use of it."""
        with self._activity.look(), self._reading, self._opened.use() as live:
            if caller is not None:
                self._check_contact(caller, live)
            path = live.store.path
            return Inspection(
                identity=live.store.identity,
                pid=os.getpid(),
                node_id=ray.get_runtime_context().get_node_id(),
                started_at=self._started_at,
                messages=live.reader.messages.count(),
                open_turns=live.open_turns(self._cancel_flag.running),
                file=str(path),
                file_bytes=path.stat().st_size,
                wal_bytes=live.store.wal_bytes,
                epoch=self._epoch,
                idle_s=self._activity.idle_s,
                outbox=self._outbox.depths(live.reader),
                parked=tuple(live.reader.outbox.parked()),
            )

    # Around every call.

    def _open(self) -> Activation:
        try:
            return self._activate(after=0)
        except FencedError as error:  # the directory knew less than the file, having been put back from a copy, say
            return self._activate(after=error.newest or 0)

    def _activate(self, after: int) -> Activation:
        from ..storage.conversation_store import ConversationStore  # a driver loads this class too, and opens no file

        place, where = self._place, self._where
        path = conversation_path(place.data_dir, where.agent, where.conversation_id)
        record = self._directory.activate(where, self._node_id, after)
        if record.has_file and not path.exists():
            raise FileMissingError(
                str(path),
                f"conversation {where.conversation_id!r} of agent {where.agent!r} was stored here and its file is gone;"
                " restore it from a backup, or use another conversation id",
            )
        store = self._watch.watched(
            ConversationStore.open(
                path,
                ConversationIdentity(agent=where.agent, conversation_id=where.conversation_id, contact=where.contact),
                self._clock.now(),
                place.settings.conversations.file_memory_limit_mib,
                record.epoch,
            )
        )
        self._tally.count(ACTIVATIONS, where.agent)
        self._epoch = record.epoch
        if not record.has_file:
            self._directory.mark_stored(where, store.identity.contact)
        conversation = Conversation(
            store,
            WatchedChat(self._model, self._watch),
            WatchedTools(self._tools, self._watch, self._tally, where.agent),
            self._clock,
            place.settings,
            self._cancel_flag,
            MemoryClient(place, self._cancel_flag.check_running),
        )
        return Activation(store=store, conversation=conversation, reader=store.reader(), outbox_reader=store.reader())

    @contextmanager
    def _read_outbox(self) -> Iterator[tuple[ConversationReader, ConversationIdentity]]:
        with self._opened.use() as live:
            yield live.outbox_reader, live.store.identity

    @contextmanager
    def _read_alone(self) -> Iterator[ConversationReader]:
        with self._opened.use() as live:
            yield live.store.reader()

    def _has_memory(self) -> bool:
        """Has the agent, as its last caller or else the directory knows it?"""
        agent = self._agent
        return self._directory.has_memory(self._where) if agent is None else agent.options.memory

    @contextmanager
    def _read(self, caller: Caller) -> Iterator[Activation]:
        """For the control group: its threads share the reader, one at a time."""
        with self._counted(), self._activity.use(), self._reading, self._opened.use() as live:
            self._check_contact(caller, live)
            yield live

    @contextmanager
    def _step(self, caller: Caller) -> Iterator[tuple[Activation, AgentProfile]]:
        with self._counted(), self._activity.use(), self._opened.use() as live:
            self._check_contact(caller, live)
            if self._agent is None or caller.agent.version >= self._agent.version:
                self._agent = caller.agent
            self._tools.records = {record.name: record for record in self._agent.options.tools}
            self._tools.code = caller.agent.code
            try:
                yield live, self._agent.profile
            except PerdureError:
                raise
            except Exception:
                logger.exception("conversation %s/%s: a call failed", self._where.agent, self._where.conversation_id)
                raise
            finally:
                self._tidy_later(live)
                self._outbox.wake()

    @contextmanager
    def _turn(self, caller: Caller, turn_id: TurnId) -> Iterator[tuple[Activation, AgentProfile]]:
        with self._step(caller) as stepped:
            self._cancel_flag.begin(turn_id)
            try:
                with self._watch.turn():
                    yield stepped
            finally:
                self._cancel_flag.end()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """The outer edge: every error that a call is answered with."""
        try:
            yield
        except PassivatedError:
            raise
        except Exception as error:
            self._tally.count(ERRORS, self._where.agent, type(error).__name__)
            raise

    def _has_fresh_turn(self) -> bool:
        """Is a driver in the middle of a turn of its own?"""
        live = self._opened.current
        limit = self._clock.now() - timedelta(seconds=self._place.settings.turn.resume_after_s)
        return live is not None and live.has_driver_turn_since(limit)

    def _check_contact(self, caller: Caller, live: Activation) -> None:
        stored = live.store.identity.contact
        if caller.contact is not None and caller.contact != stored:
            raise ContactMismatchError(self._where.conversation_id, stored, caller.contact)

    def _tidy_later(self, live: Activation) -> None:
        limit = self._place.settings.conversations.tidy_wal_kib * 1024
        if not self._is_tidying and live.store.needs_tidying(limit):
            self._is_tidying = True
            self._activity.begin_own_call()
            ray.get_runtime_context().current_actor.tidy.remote()
