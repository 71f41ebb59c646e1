"""Lanes: one call at a time, in order, and nobody waits for ever when the runtime closes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.actors.client.lane import Lane
from perdure.actors.client.stream import TurnStream
from perdure.storage.errors import RuntimeClosedError


@pytest.fixture
def executor():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_calls_run_one_at_a_time_in_the_order_they_came(executor):
    lane, ran, under_way = Lane(executor), [], []

    def body(number: int) -> None:
        under_way.append(number)
        assert len(under_way) == 1
        ran.append(number)
        under_way.remove(number)

    for future in [lane.submit(lambda n=n: body(n)) for n in range(200)]:  # type: ignore[misc]
        future.result(10)
    assert ran == list(range(200))


def test_a_call_made_here_runs_on_the_callers_thread_only_where_nothing_is_before_it(executor):
    lane, go_on = Lane(executor), threading.Event()
    assert lane.submit(threading.get_ident, here=True).result(10) == threading.get_ident()
    first = lane.submit(lambda: go_on.wait(10))
    second = lane.submit(threading.get_ident, here=True)
    assert not second.done()
    go_on.set()
    assert first.result(10)
    assert second.result(10) != threading.get_ident()


def test_what_waits_when_the_lane_closes_is_told_so_streams_too(executor):
    lane, go_on = Lane(executor), threading.Event()
    first = lane.submit(lambda: go_on.wait(10))
    waiting = lane.submit(lambda: "never")
    stream = TurnStream("t", executor)
    stream.run_in(lane, lambda: iter(()))
    lane.close()
    with pytest.raises(RuntimeClosedError):
        waiting.result(10)
    told = executor.submit(lambda: list(stream))
    with pytest.raises(RuntimeClosedError):
        told.result(10)
    go_on.set()
    assert first.result(10)
    with pytest.raises(RuntimeClosedError):
        lane.submit(lambda: "too late")
