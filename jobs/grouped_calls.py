"""Calls to another process that go together: those that come while others are on their way wait for the next group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from ..storage.errors import PerdureError

Request = TypeVar("Request")
Answer = TypeVar("Answer")

SLOW_S = 0.03
"""After which those behind a group no longer wait for it: the next one goes out beside it."""
GROUPS_AT_ONCE = 4
MOST_TOGETHER = 16


class GroupedCalls(Generic[Request, Answer]):
    """Asks for many at the price of one: between processes a call costs as much as a search. For one event loop."""

    def __init__(self, ask: Callable[[Sequence[Request]], Awaitable[Sequence[Answer | PerdureError]]]) -> None:
        """`ask` answers requests in their order, each with its answer or with why there is none."""
        self._ask = ask
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._groups: set[asyncio.Task[None]] = set()
        self._awaited: asyncio.Task[None] | None = None
        """The group that those who come now wait for."""

    async def call(self, request: Request) -> Answer:
        """The answer to one request.

        Raises:
            PerdureError: There is none; or whatever `ask` raised for the whole group.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._awaited is None:
            self._begin()
        return await answer

    def _begin(self) -> None:
        if self._waiting and len(self._groups) < GROUPS_AT_ONCE:
            self._awaited = asyncio.create_task(self._run())
            self._groups.add(self._awaited)

    async def _run(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        is_slow = asyncio.get_running_loop().call_later(SLOW_S, self._wait_no_longer, me)
        try:
            await self._ask_for(self._taken())
        finally:
            is_slow.cancel()
            self._groups.discard(me)
            self._wait_no_longer(me)

    def _wait_no_longer(self, group: asyncio.Task[None]) -> None:
        if self._awaited is group:
            self._awaited = None
        if self._awaited is None:
            self._begin()

    def _taken(self) -> list[tuple[Request, asyncio.Future[Answer]]]:
        group, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        return [(request, answer) for request, answer in group if not answer.done()]  # who waited may have gone

    async def _ask_for(self, group: Sequence[tuple[Request, asyncio.Future[Answer]]]) -> None:
        if not group:
            return
        try:
            answers = await self._ask([request for request, _ in group])
        except BaseException as error:  # noqa: BLE001 - goes to everybody who waits
            for _, answer in group:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), given in zip(group, answers, strict=True):
            if answer.done():
                continue
            if isinstance(given, PerdureError):
                answer.set_exception(given)
            else:
                answer.set_result(given)
