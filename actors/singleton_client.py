"""A singleton actor as another actor sees it: it may be restarting, and the call waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from ..storage.errors import CallTimeoutError
from .task_errors import cause_of

RETRY_S = 0.1
LOOK_S = 0.25


class SingletonClient:
    """Calls its methods and waits. A call may run more than once, so it has to be idempotent."""

    def __init__(
        self, name: str, locate: Callable[[], Any], answer_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        """`check` is called while it waits; what it raises ends the waiting."""
        self._name = name
        self._locate = locate
        self._answer_s = answer_s
        self._check = check
        self._handle: Any = None

    def call(self, method: str, *arguments: object) -> Any:
        """What the method returns.

        Raises:
            PerdureError: What it raised, or CallTimeoutError.
        """
        limit = time.monotonic() + self._answer_s
        while time.monotonic() < limit:
            try:
                if self._handle is None:
                    self._handle = self._locate()
                return self._get(getattr(self._handle, method).remote(*arguments), limit)
            except RayTaskError as error:
                raise cause_of(error) from None
            except GetTimeoutError:
                break
            except (ActorDiedError, ActorUnavailableError, ValueError):
                self._handle = None
                time.sleep(RETRY_S)  # it is restarting, or its name was freed just now
        raise CallTimeoutError(f"{self._name}.{method}", self._answer_s)

    def _get(self, reference: Any, limit: float) -> Any:
        while True:
            self._check()
            try:
                return ray.get(reference, timeout=max(0.01, min(LOOK_S, limit - time.monotonic())))
            except GetTimeoutError:
                if time.monotonic() >= limit:
                    raise
