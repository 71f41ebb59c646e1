"""Calls that go together: each gets its own answer, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from perdure.jobs import grouped_calls
from perdure.jobs.grouped_calls import GROUPS_AT_ONCE, MOST_TOGETHER, SLOW_S, GroupedCalls
from perdure.storage.errors import IndexUnavailableError, InvalidInputError, PerdureError


class Doubling:
    """Doubles numbers, once it may; refuses negative ones; and fails altogether when it is told to."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    async def ask(self, numbers: Sequence[int]) -> Sequence[int | PerdureError]:
        self.groups.append(list(numbers))
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [2 * number if number >= 0 else InvalidInputError("number", f"{number}", "…") for number in numbers]


def test_calls_that_come_while_others_are_on_their_way_go_together_and_each_gets_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouped_calls, "SLOW_S", 10.0)

    async def use() -> None:
        doubling = Doubling()
        calls = GroupedCalls(doubling.ask)
        waiting = []
        for number in range(40):
            waiting.append(asyncio.create_task(calls.call(number)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert doubling.groups == [[0]]
        doubling.may_answer.set()
        assert await asyncio.gather(*waiting) == [2 * number for number in range(40)]
        assert list(map(len, doubling.groups)) == [1, MOST_TOGETHER, MOST_TOGETHER, 39 - 2 * MOST_TOGETHER]

    asyncio.run(use())


def test_nobody_waits_long_behind_a_slow_group() -> None:
    async def use() -> None:
        doubling = Doubling()
        calls = GroupedCalls(doubling.ask)
        waiting = []
        for number in range(GROUPS_AT_ONCE + 2):
            waiting.append(asyncio.create_task(calls.call(number)))
            await asyncio.sleep(3 * SLOW_S)
        assert doubling.groups == [[number] for number in range(GROUPS_AT_ONCE)]
        doubling.may_answer.set()
        assert await asyncio.gather(*waiting) == [2 * number for number in range(GROUPS_AT_ONCE + 2)]

    asyncio.run(use())


def test_one_that_is_refused_does_not_harm_those_beside_it() -> None:
    async def use() -> None:
        doubling = Doubling()
        doubling.may_answer.set()
        calls = GroupedCalls(doubling.ask)
        answers = await asyncio.gather(*(calls.call(number) for number in (1, -1, 2, 3)), return_exceptions=True)
        assert [answers[0], *answers[2:]] == [2, 4, 6]
        assert isinstance(answers[1], InvalidInputError)

    asyncio.run(use())


def test_a_failure_of_a_group_is_told_to_each_in_it_and_the_next_call_is_asked_anew() -> None:
    async def use() -> None:
        doubling = Doubling()
        doubling.may_answer.set()
        doubling.failure = IndexUnavailableError("x", "down")
        calls = GroupedCalls(doubling.ask)
        answers = await asyncio.gather(*(calls.call(number) for number in range(5)), return_exceptions=True)
        assert [type(answer) for answer in answers] == 5 * [IndexUnavailableError]
        doubling.failure = None
        assert await calls.call(4) == 8

    asyncio.run(use())


def test_one_that_has_gone_meanwhile_is_not_asked_for() -> None:
    async def use() -> None:
        doubling = Doubling()
        calls = GroupedCalls(doubling.ask)
        first = asyncio.create_task(calls.call(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(calls.call(99), SLOW_S / 5)
        doubling.may_answer.set()
        assert await first == 2
        assert await calls.call(5) == 10
        assert 99 not in {number for group in doubling.groups for number in group}

    asyncio.run(use())
