"""Readers on threads of their own and one writer at a time: all get through, none hangs.

mem0ai/mem0#7196: concurrent readers and a writer met "database is locked".
posit-dev/raghilda PR#28: cursors of worker threads hung in a commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.records import TurnId, Usage
from tests.fixtures.conversation_file import a_call, a_message, a_result, at, finish_turn, open_store, open_turn

pytestmark = [pytest.mark.cases, pytest.mark.timeout(110)]

THREADS = 32


def side_by_side(works: list[Callable[[], None]]) -> None:
    """Run each on a thread of its own, all begun together, and raise what any of them raised."""
    gate = threading.Barrier(len(works))

    def begun_together(work: Callable[[], None]) -> None:
        gate.wait(30)
        work()

    pool = ThreadPoolExecutor(len(works))
    running = [pool.submit(begun_together, work) for work in works]
    done, hanging = wait(running, timeout=90)
    pool.shutdown(wait=False)
    assert not hanging
    for each in done:
        each.result()


TURNS = 3


def a_writer(store: ConversationStore, lock: threading.Lock, number: int) -> Callable[[], None]:
    """Some turns with a tool round each, every step under the lock, as the conversation's actor has it."""

    def work() -> None:
        for turn in range(TURNS):
            for step in steps_of_a_turn(store, f"{number}.{turn}"):
                with lock:
                    step()

    return work


def steps_of_a_turn(store: ConversationStore, turn_id: str) -> list[Callable[[], object]]:
    turn = TurnId(turn_id)
    return [
        lambda: open_turn(store, turn_id),
        lambda: store.record_calls(turn_id=turn, text="", calls=(a_call("c1"),), usage=Usage(), at=at(1)),
        lambda: store.record_results(turn_id=turn, results=(a_result("c1", "x" * 2_000),), at=at(2)),
        lambda: finish_turn(store, turn_id),
    ]


def a_reader(store: ConversationStore, until: threading.Event) -> Callable[[], None]:
    """Reads pages through a cursor of its own; what it sees is whole and never goes back."""

    def work() -> None:
        reader = store.reader()
        seen = 0
        is_last = False
        while not is_last:
            is_last = until.wait(0.05)
            page = reader.messages.page_before(None, 10)
            assert [message.seq for message in page] == [page[0].seq + place for place in range(len(page))]
            count = reader.messages.count()
            assert count >= max(seen, len(page))
            seen = count
            assert all(turn.state == "open" for turn, _, _ in reader.open_turns())

    return work


def test_sixteen_readers_and_sixteen_writers_all_succeed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c.duckdb")
    lock, finished = threading.Lock(), threading.Event()
    left = [THREADS // 2]

    def counted(work: Callable[[], None]) -> Callable[[], None]:
        def counting() -> None:
            try:
                work()
            finally:
                with lock:
                    left[0] -= 1
                    if not left[0]:
                        finished.set()

        return counting

    writers = [counted(a_writer(store, lock, number)) for number in range(THREADS // 2)]
    readers = [a_reader(store, finished) for _ in range(THREADS // 2)]
    side_by_side(writers + readers)

    turns = THREADS // 2 * TURNS
    assert store.message_count() == turns * 2
    assert store.open_turns() == []
    store.close()
    store = open_store(store.path)
    stored = store.page_before(None, 1_000)
    assert [message.seq for message in stored] == list(range(turns * 2))
    for number in range(THREADS // 2):  # each client's own order holds
        own = [message.message_id for message in stored if message.message_id.startswith(f"{number}.")]
        assert own == [f"{number}.{turn}/{end}" for turn in range(TURNS) for end in ("user", "reply")]
    store.close()


def test_many_conversations_are_written_side_by_side(tmp_path: Path) -> None:
    def conversation(number: int) -> Callable[[], None]:
        def work() -> None:
            store = open_store(tmp_path / f"{number}.duckdb")
            a_writer(store, threading.Lock(), number)()
            store.close()

        return work

    side_by_side([conversation(number) for number in range(8)])
    for number in range(8):
        store = open_store(tmp_path / f"{number}.duckdb")
        assert store.message_count() == 2 * TURNS
        store.close()


def test_writes_from_changing_threads_and_folding_of_the_log_do_not_hang_beside_readers(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c.duckdb")
    lock, finished = threading.Lock(), threading.Event()

    def write() -> None:
        for number in range(40):
            thread = threading.Thread(target=lambda: store.append_messages(messages=[a_message(f"m{number}")]))  # noqa: B023
            with lock:
                thread.start()
                thread.join(30)
                assert not thread.is_alive()
                if number % 5 == 0:
                    store.tidy()
        finished.set()

    begun = time.monotonic()
    side_by_side([write] + [a_reader(store, finished) for _ in range(6)])
    assert time.monotonic() - begun < 90
    assert store.message_count() == 40
    store.close()
