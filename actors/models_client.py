"""The `models` pool as a conversation sees it: a `ChatModel` whose calls cross to another process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from ..jobs.chat_model import ChatReply, ChatRequest
from ..storage.errors import ModelError, ModelUnavailableError
from .placement import RuntimePlace, models_actor
from .tool_tasks import CANCEL_POLL_S

LOST_PROCESS_TRIES = 3
"""How often a request goes out again when the pool's process died with it. A model call leaves nothing behind."""


class PooledChat:
    """Asks the pool's processes in turn."""

    def __init__(self, place: RuntimePlace, check_cancelled: Callable[[], None]) -> None:
        self._place = place
        self._check_cancelled = check_cancelled
        self._handles: dict[int, Any] = {}
        self._next_replica = itertools.cycle(range(place.settings.models.replicas))

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply. See `jobs.chat_model.ChatModel`."""
        for is_last in _tries():
            replica = next(self._next_replica)
            try:
                reference = self._handle(replica).complete.remote(request)
                self._await(reference, request)
                return _reply(ray.get(reference))
            except RayTaskError as error:
                raise _model_error(request, error) from error
            except (ActorDiedError, ActorUnavailableError) as error:
                self._lost(replica, request, error, is_last)
        raise AssertionError("the last try returns or raises")

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole. See `jobs.chat_model.ChatModel`."""
        for is_last in _tries():
            replica, has_begun = next(self._next_replica), False
            try:
                pieces = self._handle(replica).stream.options(num_returns="streaming").remote(request)
                while True:
                    self._await(pieces, request)
                    try:
                        reference = next(pieces)
                    except StopIteration:
                        return
                    has_begun = True
                    yield ray.get(reference)
            except RayTaskError as error:
                raise _model_error(request, error) from error
            except (ActorDiedError, ActorUnavailableError) as error:
                self._lost(replica, request, error, is_last or has_begun)

    def _handle(self, replica: int) -> Any:
        if replica not in self._handles:
            self._handles[replica] = models_actor(self._place, replica)
        return self._handles[replica]

    def _await(self, awaited: Any, request: ChatRequest) -> None:
        """Wait until something is there, or the turn is to end, or the pool is hopelessly late."""
        settings = self._place.settings.models
        limit_s = (request.timeout_s + 60.0) * (settings.max_retries + 1)
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            self._check_cancelled()
            ready, _ = ray.wait([awaited], num_returns=1, timeout=CANCEL_POLL_S)
            if ready:
                return
        raise ModelUnavailableError(_name(request), f"no answer within {limit_s:.0f} s")

    def _lost(self, replica: int, request: ChatRequest, error: Exception, is_last: bool) -> None:
        self._handles.pop(replica, None)
        if is_last:
            raise ModelUnavailableError(_name(request), "the process that asked it died") from error
        time.sleep(0.2)


def _tries() -> Iterator[bool]:
    """True with the last one."""
    return (number == LOST_PROCESS_TRIES for number in range(1, LOST_PROCESS_TRIES + 1))


def _name(request: ChatRequest) -> str:
    return request.model or "embedded"


def _reply(answer: object) -> ChatReply:
    assert isinstance(answer, ChatReply)
    return answer


def _model_error(request: ChatRequest, error: RayTaskError) -> ModelError:
    cause = error.cause
    if isinstance(cause, ModelError):
        return cause
    return ModelUnavailableError(_name(request), f"{type(cause).__name__}: {cause}")
