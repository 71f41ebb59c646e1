"""The thread that delivers: to the runtime's own consumer at its pace, at once for whoever waits, if wanted at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.actors import outbox_worker
from perdure.actors.outbox_worker import QUIET_S, OutboxWorker, Pace
from perdure.actors.tally import Tally
from perdure.jobs.outbox import index_kind
from perdure.storage.conversation_reader import ConversationReader
from perdure.storage.outbox_records import OutboxCursor, ParkedMessage
from perdure.storage.records import ConversationIdentity, StoredMessage
from perdure.storage.settings import OutboxSettings
from tests.fixtures.conversation_file import IDENTITY, a_message, at, open_store


class Taking:
    """A consumer that takes everything."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def deliver(self, _: ConversationIdentity, messages: Sequence[StoredMessage]) -> None:
        self.batches.append([message.seq for message in messages])

    @property
    def taken(self) -> list[int]:
        return [seq for batch in self.batches for seq in batch]


TAKEN_BY_OWN = Taking()


def own() -> Taking:
    """The consumer that the settings name."""
    return TAKEN_BY_OWN


class Conversation:
    """A conversation's file with its worker; writes are made one at a time, as by its actor."""

    def __init__(
        self,
        path: Path,
        settings: OutboxSettings,
        *,
        is_indexed: bool = True,
        generation: str | None = "first",
    ) -> None:
        self.indexer = Taking()
        self.generation = generation
        self.is_indexed = is_indexed
        self.moves: list[str] = []
        self._store = open_store(path)
        self._reader = self._store.reader()
        self._writing = threading.Lock()
        self._count = 0
        TAKEN_BY_OWN.batches.clear()
        self.worker = OutboxWorker(settings, self._reading, self, Tally(), self, lambda: self.is_indexed)
        self.worker.start()

    @contextmanager
    def _reading(self) -> Iterator[tuple[ConversationReader, ConversationIdentity]]:
        yield self._reader, IDENTITY

    def kind(self) -> str | None:
        return None if self.generation is None else index_kind(self.generation)

    def consumer(self, kind: str) -> Taking:
        assert kind == self.kind()
        return self.indexer

    def move(self, kind: str, cursor: OutboxCursor) -> None:
        self.moves.append(kind)
        with self._writing:
            self._store.move_outbox_cursor(kind=kind, cursor=cursor)

    def park(self, kind: str, message: StoredMessage, attempts: int, error: str) -> None:
        parked = ParkedMessage(
            kind=kind, seq=message.seq, message_id=message.message_id, attempts=attempts, error=error, parked_at=at(0)
        )
        with self._writing:
            self._store.park_message(parked=parked)

    def turn(self) -> None:
        with self._writing:
            self._store.append_messages(messages=[a_message(f"m{self._count}")])
            self._count += 1
        self.worker.wake()

    def note_kinds(self) -> tuple[str, ...]:
        with self._writing:
            return self.worker.note(self._store).drained_kinds

    def until(self, claim: Callable[[], bool]) -> None:
        limit = time.monotonic() + 10
        while not claim():
            assert time.monotonic() < limit
            time.sleep(0.01)


def test_work_that_may_wait_is_due_at_once_after_a_pause_else_when_it_is_quiet_or_has_waited_for_long() -> None:
    pace = Pace()
    assert pace.rest_s(7.0) <= 0
    pace.begin(10.0)
    assert pace.rest_s(10.0) <= 0
    pace.end(10.0)
    assert pace.rest_s(10.1) <= 0  # there is nothing new
    pace.begin(10.2)
    assert pace.rest_s(10.2) == pytest.approx(QUIET_S)
    for tenth in range(103, 150):
        pace.begin(tenth / 10)
        assert 0 < pace.rest_s(tenth / 10) <= QUIET_S
    pace.begin(15.1)
    assert pace.rest_s(15.1) <= 0
    pace.end(15.2)
    pace.begin(15.3)
    assert pace.rest_s(15.3) == pytest.approx(QUIET_S)


def test_turns_in_a_row_share_a_delivery_and_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_worker, "LATEST_S", 1.0)
    monkeypatch.setattr(outbox_worker, "QUIET_S", 5.0)  # a busy machine takes its time between two turns
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings())
    began = time.monotonic()
    for _ in range(60):
        chat.turn()
        time.sleep(0.02)
    assert chat.indexer.batches  # it does not wait until the turns end
    chat.until(lambda: len(chat.indexer.taken) == 60)
    most = (time.monotonic() - began) / 1.0 + 2
    assert chat.indexer.taken == list(range(60))
    assert len(chat.indexer.batches) <= most
    assert len(chat.moves) <= most + 1  # the first delivery of a process moves its cursor twice


def test_whoever_waits_for_the_outbox_does_not_wait_for_its_pace(tmp_path: Path) -> None:
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings())
    for number in range(10):
        chat.turn()
        chat.worker.drain(10)
        assert chat.indexer.taken == list(range(number + 1))
    began = time.monotonic()
    for _ in range(5):
        chat.turn()
        chat.worker.drain(10)
    assert time.monotonic() - began < 4 * QUIET_S


def test_a_conversation_that_is_not_indexed_costs_no_commit_and_begins_at_the_first_message_later(
    tmp_path: Path,
) -> None:
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings(), is_indexed=False)
    chat.worker.drain(10)
    for _ in range(3):
        chat.turn()
        chat.worker.drain(10)
    assert (chat.moves, chat.indexer.batches, chat.worker.last_depths) == ([], [], {})
    chat.is_indexed = True
    chat.turn()
    chat.worker.drain(10)
    assert (chat.indexer.taken, chat.worker.last_depths) == ([0, 1, 2, 3], {"index": 0})


@pytest.mark.parametrize("is_paced_too", [True, False])
def test_a_consumer_of_the_users_own_is_not_paced(tmp_path: Path, is_paced_too: bool) -> None:
    settings = OutboxSettings(index=is_paced_too, consumers=(f"own={__name__}:own",))
    chat = Conversation(tmp_path / "c.duckdb", settings)
    for number in range(20):
        chat.turn()
        chat.until(lambda: TAKEN_BY_OWN.taken == list(range(number + 1)))  # noqa: B023
    assert len(TAKEN_BY_OWN.batches) == 20
    if not is_paced_too:
        assert (chat.indexer.batches, set(chat.moves)) == ([], {"own"})
        return
    assert len(chat.indexer.batches) < 20
    chat.worker.drain(10)
    assert chat.indexer.taken == list(range(20))


def test_a_users_consumer_that_cannot_be_loaded_does_not_keep_messages_from_being_indexed(tmp_path: Path) -> None:
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings(consumers=("own=perdure.nothing:There",)))
    chat.turn()
    chat.until(lambda: chat.indexer.taken == [0])


def test_after_the_indexes_were_made_anew_all_messages_come_again_without_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_worker, "ANEW_LOOK_S", 0.1)
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings())
    for _ in range(3):
        chat.turn()
    chat.worker.drain(10)
    assert chat.indexer.taken == [0, 1, 2]
    assert chat.note_kinds() == ("index:first",)
    chat.generation = "second"
    chat.until(lambda: chat.indexer.taken == [0, 1, 2, 0, 1, 2])
    chat.until(lambda: chat.worker.last_depths == {"index": 0})
    assert chat.note_kinds() == ("index:second",)


def test_while_the_indexes_are_being_made_nothing_is_delivered_and_nothing_written(tmp_path: Path) -> None:
    chat = Conversation(tmp_path / "c.duckdb", OutboxSettings(), generation=None)
    for _ in range(3):
        chat.turn()
    chat.worker.drain(10)
    assert (chat.indexer.taken, chat.moves, chat.worker.last_depths) == ([], [], {"index": 3})
    chat.generation = "first"
    chat.until(lambda: chat.indexer.taken == [0, 1, 2])
