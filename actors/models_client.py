"""The `models` pool as a conversation sees it: a `ChatModel` whose calls cross to another process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from ..jobs.chat_model import ChatReply, ChatRequest
from ..storage.errors import ModelError, ModelUnavailableError
from .placement import RuntimePlace, models_actor
from .tool_tasks import CANCEL_POLL_S

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 3.0)
"""Before a request goes out again whose process died: a new one takes a second or two. A lost model call leaves
nothing behind."""


class PooledChat:
    """Asks the pool's processes in turn."""

    def __init__(self, place: RuntimePlace, check_cancelled: Callable[[], None]) -> None:
        self._place = place
        self._check_cancelled = check_cancelled
        self._handles: dict[int, Any] = {}
        self._next_replica = itertools.cycle(range(place.settings.models.replicas))

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply. See `jobs.chat_model.ChatModel`."""
        for pause_s in _tries():
            replica = next(self._next_replica)
            try:
                return _reply(self._get(self._handle(replica).complete.remote(request), request))
            except RayTaskError as error:
                raise _model_error(request, error) from error
            except (ActorDiedError, ActorUnavailableError) as error:
                self._lost(replica, request, error, pause_s)
        raise AssertionError("the last try returns or raises")

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole. See `jobs.chat_model.ChatModel`."""
        for pause_s in _tries():
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
                self._lost(replica, request, error, None if has_begun else pause_s)

    def _handle(self, replica: int) -> Any:
        if replica not in self._handles:
            self._handles[replica] = models_actor(self._place, replica)
        return self._handles[replica]

    def _get(self, reference: Any, request: ChatRequest) -> object:
        for look_s in self._looks(request):
            with suppress(GetTimeoutError):
                return ray.get(reference, timeout=look_s)
        raise self._too_late(request)

    def _await(self, pieces: Any, request: ChatRequest) -> None:
        for look_s in self._looks(request):
            if ray.wait([pieces], num_returns=1, timeout=look_s)[0]:
                return
        raise self._too_late(request)

    def _looks(self, request: ChatRequest) -> Iterator[float]:
        """How long to wait at a stretch, until the pool is hopelessly late; between, whether the turn is to end."""
        limit = time.monotonic() + self._limit_s(request)
        while time.monotonic() < limit:
            self._check_cancelled()
            yield CANCEL_POLL_S

    def _limit_s(self, request: ChatRequest) -> float:
        return (request.timeout_s + 60.0) * (self._place.settings.models.max_retries + 1)

    def _too_late(self, request: ChatRequest) -> ModelUnavailableError:
        return ModelUnavailableError(request.shown_model, f"no answer within {self._limit_s(request):.0f} s")

    def _lost(self, replica: int, request: ChatRequest, error: Exception, pause_s: float | None) -> None:
        self._handles.pop(replica, None)
        if pause_s is None:
            raise ModelUnavailableError(request.shown_model, "the process that asked it died") from error
        time.sleep(pause_s)


def _tries() -> Iterator[float | None]:
    """The pause after each try, None after the last."""
    yield from PAUSES_S
    yield None


def _reply(answer: object) -> ChatReply:
    assert isinstance(answer, ChatReply)
    return answer


def _model_error(request: ChatRequest, error: RayTaskError) -> ModelError:
    cause = error.cause
    if isinstance(cause, ModelError):
        return cause
    return ModelUnavailableError(request.shown_model, f"{type(cause).__name__}: {cause}")
