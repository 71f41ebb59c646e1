"""A streamed turn: iterate over it, with `for` or with `async for`."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future

from ...jobs.turn_events import TextPiece, TurnEvent, TurnFinished
from ...jobs.turn_events import ToolFinished as TurnToolFinished
from ...jobs.turn_events import ToolStarted as TurnToolStarted
from ..task_errors import cause_of
from .actor_call import FIRST_BACKOFF_S, SUPERSEDED, ActorLink, Deadline, pause
from .events import Event, Finished, ToolFinished, ToolStarted
from .lane import Lane
from .splice import TextSplicer


class TurnStream:
    """The events of a turn. The turn goes on, and is stored, whether or not anybody iterates to the end."""

    def __init__(self, turn_id: str, executor: Executor) -> None:
        self.turn_id = turn_id
        self._executor = executor
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._is_over = False
        self._has_ended = threading.Event()

    def has_ended(self) -> bool:
        """Has the turn ended, whether or not anybody has iterated so far?"""
        return self._has_ended.is_set()

    def run_in(self, lane: Lane, events: Callable[[], Iterator[Event]]) -> None:
        """Run the turn when its lane comes to it; if it never does, whoever iterates is told why."""
        lane.submit(lambda: self.feed(events)).add_done_callback(self._pass_on_refusal)

    def feed(self, events: Callable[[], Iterator[Event]]) -> None:
        """Run the turn, and hand its events to whoever iterates."""
        try:
            for event in events():
                self._events.put(event)
            self._events.put(None)
        except BaseException as error:  # noqa: BLE001 - belongs to whoever iterates
            self._events.put(error)
        finally:
            self._has_ended.set()

    def _pass_on_refusal(self, ran: Future[None]) -> None:
        refusal = ran.exception()  # `feed` itself raises nothing
        if refusal is not None:
            self._events.put(refusal)
            self._has_ended.set()

    def __iter__(self) -> TurnStream:
        return self

    def __next__(self) -> Event:
        event = self._next()
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> TurnStream:
        return self

    async def __anext__(self) -> Event:
        event = await asyncio.get_running_loop().run_in_executor(self._executor, self._next)
        if event is None:
            raise StopAsyncIteration
        return event

    def _next(self) -> Event | None:
        if self._is_over:
            return None
        item = self._events.get()
        if item is None or isinstance(item, BaseException):
            self._is_over = True
        if isinstance(item, BaseException):
            raise item
        return item


class Told:
    """What has been told of a turn, whose later attempts say much of it again."""

    def __init__(self) -> None:
        self._splicer = TextSplicer()
        self._calls: set[tuple[str, str]] = set()
        self._is_over = False

    def tell(self, event: TurnEvent) -> Iterator[Event]:
        """What is new in an event."""
        if isinstance(event, TextPiece):
            yield from self._splicer.piece(event)
        elif isinstance(event, TurnFinished):
            yield from self._splicer.reply(event.reply)
            yield Finished(reply=event.reply)
            self._is_over = True
        elif isinstance(event, TurnToolStarted) and self._is_new("started", event.call.call_id):
            yield ToolStarted(call=event.call)
        elif isinstance(event, TurnToolFinished) and self._is_new("finished", event.call.call_id):
            yield ToolFinished(call=event.call, status=event.status, preview=event.preview)

    def is_over(self) -> bool:
        """Has its last event been told?"""
        return self._is_over

    def _is_new(self, kind: str, call_id: str) -> bool:
        is_new = (kind, call_id) not in self._calls
        self._calls.add((kind, call_id))
        return is_new


def turn_events(link: ActorLink, *arguments: object, deadline: Deadline) -> Iterator[Event]:
    """The events of an actor's `stream`, asked for again under the same turn id when the actor dies.

    A broken-off stream is never continued by Ray, which would splice a second run onto the first; the second
    run is asked for here, and what it says again is told once.
    """
    import ray
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

    told = Told()
    backoff_s = FIRST_BACKOFF_S
    while not told.is_over():
        link.gate.check()
        try:
            stream = link.handle().stream.options(num_returns="streaming", max_task_retries=0)
            pieces = stream.remote(*arguments)
            while not told.is_over():
                ready, _ = ray.wait([pieces], num_returns=1, timeout=deadline.next_look_s())
                if ready:
                    yield from told.tell(ray.get(next(pieces)))
                else:
                    link.gate.check()
            return
        except StopIteration:
            link.forget()  # the stream ended without its last event: its process is gone
        except RayTaskError as error:
            cause = cause_of(error)
            if not isinstance(cause, SUPERSEDED):
                raise cause from None
            link.forget()
        except (ActorDiedError, ActorUnavailableError):
            link.forget()
        backoff_s = pause(backoff_s, deadline)
