"""Which conversations a node keeps live: idle ones end, and the least recently used beyond the cap."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..storage.settings import ConversationSettings
from .activity import Activity, PassivatedError
from .live_marks import live_conversations

LIVE_MIB = 85
"""What a live conversation takes at most, proportional set size; measured by `tests.benchmarks.turn`."""
SHARE_OF_MEMORY = 0.5
"""Of the node's, for live conversations, unless `conversations.live_cap` says how many."""

CAP_LOOK_S = 5.0
"""How often a conversation looks whether it is beyond the cap: those that were in use when it was exceeded stay."""
ANSWER_S = 30.0
ASK_AGAIN_S = 0.1


logger = logging.getLogger(__name__)


def live_cap(settings: ConversationSettings) -> int:
    """How many conversations the node keeps live."""
    if settings.live_cap:
        return settings.live_cap
    node_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    return max(8, int(node_mib * SHARE_OF_MEMORY / LIVE_MIB))


class IdleWatch:
    """A thread that asks its own actor to passivate: when it has been idle for long, or is beyond the node's cap.

    It asks by a call, which waits behind the turns that are queued already: an exit from here would race with
    them, and a kill would take the turn at hand along.
    """

    def __init__(self, activity: Activity, folder: Path, own_name: str, settings: ConversationSettings) -> None:
        self._activity = activity
        self._folder = folder
        self._own_name = own_name
        self._idle_s = settings.passivate_after_s
        self._cap = live_cap(settings)
        self._next_cap_look = time.monotonic() + CAP_LOOK_S
        self._thread = threading.Thread(target=self._watch, name="idle-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def look_soon(self) -> None:
        """Somebody wanted the process to end, and it could not."""
        self._next_cap_look = 0.0

    def _watch(self) -> None:
        import ray

        myself = ray.get_runtime_context().current_actor
        look_s = min(1.0, self._idle_s / 4)
        while True:
            time.sleep(look_s)
            idle_s = self._activity.idle_s
            if idle_s >= self._idle_s:
                self._ask_itself(myself, self._idle_s)
            elif time.monotonic() >= self._next_cap_look and idle_s >= look_s:
                self._next_cap_look = time.monotonic() + CAP_LOOK_S * random.uniform(0.8, 1.2)
                if self._own_name in least_recently_used(self._folder, self._cap):
                    self._ask_itself(myself, look_s)

    def _ask_itself(self, myself: Any, idle_s: float) -> None:
        with suppress(PassivatedError), self._activity.own_call():
            _ask_to_end([myself], idle_s, asked_by_itself=True)


def exit_in_any_case(within_s: float) -> None:
    """End this process even when Ray does not; it would start it anew, which costs only time."""

    def end() -> None:
        logger.error("Ray has not ended this process within %.0f s", within_s)
        os._exit(0)

    timer = threading.Timer(within_s, end)
    timer.daemon = True
    timer.start()


def least_recently_used(folder: Path, cap: int) -> Sequence[str]:
    """The names of the live conversations beyond the cap, the one unused for longest first."""
    live = live_conversations(folder)
    return [one.actor_name for one in live[: max(0, len(live) - cap)]]


def passivate_beyond_cap(folder: Path, namespace: str, own_name: str, settings: ConversationSettings) -> None:
    """Ask the least recently used conversations beyond the node's cap to end; those in use will decline."""
    names = least_recently_used(folder, live_cap(settings))
    _ask_to_end(_actors([name for name in names if name != own_name], namespace), 0.0)


def passivate_all(folder: Path, namespace: str, timeout_s: float) -> None:
    """Have every live conversation of the node deliver what it can and end, as their Ray is about to.

    Half of the time is for delivering. One that is at work declines to end, and is asked again while there is time.
    """
    began = time.monotonic()
    actors = _actors([live.actor_name for live in live_conversations(folder)], namespace)

    def drain(actor: Any) -> Any:
        return actor.drain_outbox.options(max_task_retries=0, concurrency_group="control").remote(timeout_s / 2)

    _ask_again(actors, drain, lambda left: any(left.values()), began + timeout_s / 2)
    _ask_again(actors, lambda actor: _passivate(actor, 0.0), lambda has_ended: not has_ended, began + timeout_s)


def _ask_again(
    actors: Sequence[Any], ask: Callable[[Any], Any], is_unfinished: Callable[[Any], bool], limit: float
) -> None:
    """Ask actors side by side, and those again that are unfinished by their answer, until a monotonic moment."""
    import ray

    while actors and (rest_s := limit - time.monotonic()) > 0:
        asked = {ask(actor): actor for actor in actors}
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=rest_s)
        unfinished = []
        for answer in answered:
            with suppress(ray.exceptions.RayError):  # it ends as it answers
                if is_unfinished(ray.get(answer)):
                    unfinished.append(asked[answer])
        actors = unfinished
        time.sleep(ASK_AGAIN_S)


def _actors(names: Iterable[str], namespace: str) -> list[Any]:
    import ray

    found: list[Any] = []
    for name in names:
        with suppress(ValueError):  # it has ended
            found.append(ray.get_actor(name, namespace))
    return found


def _ask_to_end(actors: Sequence[Any], idle_s: float, *, asked_by_itself: bool = False) -> None:
    import ray

    asked = [_passivate(actor, idle_s, asked_by_itself=asked_by_itself) for actor in actors]
    if asked:
        ray.wait(asked, num_returns=len(asked), timeout=ANSWER_S)  # one that has ended, or is too busy, says nothing


def _passivate(actor: Any, idle_s: float, *, asked_by_itself: bool = False) -> Any:
    return actor.passivate.options(max_task_retries=0).remote(idle_s, asked_by_itself=asked_by_itself)
