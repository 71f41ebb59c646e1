"""The outbox: every message reaches every consumer, in order, at least once; what cannot be taken is put aside."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.jobs.outbox import Delivery, Progress, consumer_kinds, consumer_places, load_consumers
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.errors import SettingsError
from perdure.storage.outbox_records import OutboxCursor, ParkedMessage
from perdure.storage.records import ConversationIdentity, StoredMessage
from perdure.storage.settings import OutboxSettings
from tests.fixtures.conversation_file import IDENTITY, a_message, at, open_store

SETTINGS = OutboxSettings(batch=4, max_attempts=3)


class Killed(BaseException):
    """Stands for the end of the process."""


class Consumer:
    """Keeps what it gets, and refuses as told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.refused: dict[str, BaseException] = {}

    def deliver(self, conversation: ConversationIdentity, messages: Sequence[StoredMessage]) -> None:
        assert conversation == IDENTITY
        ids = [str(message.message_id) for message in messages]
        for message_id in ids:
            if message_id in self.refused:
                raise self.refused[message_id]
        self.batches.append(ids)

    @property
    def taken(self) -> list[str]:
        return [message_id for batch in self.batches for message_id in batch]


class OnFile:
    """A conversation's file as the delivering thread sees it."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._reader = store.reader()

    def cursor(self, kind: str) -> OutboxCursor:
        return self._reader.outbox.cursor(kind)

    def messages(self, from_seq: int, count: int) -> Sequence[StoredMessage]:
        return self._reader.messages.between(from_seq, from_seq + count - 1)

    def move(self, kind: str, cursor: OutboxCursor) -> None:
        self.store.move_outbox_cursor(kind=kind, cursor=cursor)

    def park(self, kind: str, message: StoredMessage, attempts: int, error: str) -> None:
        self.store.park_message(
            parked=ParkedMessage(
                kind=kind,
                seq=message.seq,
                message_id=message.message_id,
                attempts=attempts,
                error=error,
                parked_at=at(0),
            )
        )

    def parked(self) -> Sequence[ParkedMessage]:
        return self._reader.outbox.parked()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OnFile]:
    store = open_store(tmp_path / "c.duckdb")
    yield OnFile(store)
    store.close()


def append(file: OnFile, *numbers: int) -> list[str]:
    file.store.append_messages(messages=[a_message(f"m{number}") for number in numbers])
    return [f"m{number}" for number in numbers]


def delivery(consumer: Consumer, kind: str = "follow", settings: OutboxSettings = SETTINGS) -> Delivery:
    """As a new process has it."""
    return Delivery(kind, consumer, IDENTITY, settings)


def run(one: Delivery, file: OnFile, steps: int = 100) -> list[Progress]:
    """Step until nothing is left; waiting takes no time."""
    progress: list[Progress] = []
    for _ in range(steps):
        progress.append(one.step(file, file))
        if progress[-1] == "drained":
            return progress
    raise AssertionError(f"not drained after {steps} steps")


def test_messages_come_in_order_in_batches_and_once(file: OnFile) -> None:
    consumer = Consumer()
    one = delivery(consumer)
    ids = append(file, *range(10))
    run(one, file)
    ids += append(file, 10, 11)
    run(one, file)
    assert consumer.taken == ids
    assert [len(batch) for batch in consumer.batches] == [4, 4, 2, 2]


def test_a_consumer_that_arrives_later_begins_with_the_first_message(file: OnFile) -> None:
    first, second = Consumer(), Consumer()
    ids = append(file, *range(6))
    run(delivery(first), file)
    run(delivery(second, "extract"), file)
    ids += append(file, 6)
    run(delivery(second, "extract"), file)
    assert (first.taken, second.taken) == (ids[:6], ids)


def test_a_new_process_goes_on_where_the_last_one_was(file: OnFile) -> None:
    consumer = Consumer()
    append(file, *range(4))
    run(delivery(consumer), file)
    append(file, *range(4, 8))
    run(delivery(consumer), file)
    assert consumer.taken == [f"m{number}" for number in range(8)]


def test_a_message_that_always_fails_is_parked_with_its_error_and_the_rest_goes_on(file: OnFile) -> None:
    consumer = Consumer()
    consumer.refused["m2"] = ValueError("no such thing\0")
    append(file, *range(7))
    one = delivery(consumer)
    progress = run(one, file)
    assert consumer.taken == ["m0", "m1", "m3", "m4", "m5", "m6"]
    [parked] = file.parked()
    assert (parked.kind, parked.seq, parked.message_id, parked.attempts) == ("follow", 2, "m2", 3)
    assert parked.error == "ValueError: no such thing\N{REPLACEMENT CHARACTER}"
    assert progress.count("postponed") == 3  # once as part of a batch, twice alone; the third time it is parked


def test_a_consumer_that_cannot_be_reached_loses_nothing_and_parks_nothing(file: OnFile) -> None:
    consumer = Consumer()
    append(file, *range(5))
    one = delivery(consumer)
    consumer.refused = {"m0": ConnectionError("down")}
    for _ in range(20):
        assert one.step(file, file) == "postponed"
    assert one.pause_s == SETTINGS.longest_pause_s
    consumer.refused = {}
    run(one, file)
    assert consumer.taken == [f"m{number}" for number in range(5)]
    assert file.parked() == []


def test_pauses_grow_and_begin_anew_after_a_success(file: OnFile) -> None:
    consumer = Consumer()
    append(file, 0)
    one = delivery(consumer)
    consumer.refused = {"m0": TimeoutError()}
    pauses = []
    for _ in range(4):
        one.step(file, file)
        pauses.append(round(one.pause_s, 1))
    assert pauses == [0.2, 0.4, 0.8, 1.6]
    consumer.refused = {}
    run(one, file)
    consumer.refused = {"m1": TimeoutError()}
    append(file, 1)
    one.step(file, file)
    assert round(one.pause_s, 1) == 0.2


def test_a_message_that_kills_its_process_is_parked_after_so_many_deaths_and_holds_nothing_up(file: OnFile) -> None:
    consumer = Consumer()
    consumer.refused["m1"] = Killed()
    append(file, *range(6))
    deaths = 0
    while True:
        try:
            run(delivery(consumer), file)
            break
        except Killed:
            deaths += 1
            assert deaths < 10
    assert set(consumer.taken) == {"m0", "m2", "m3", "m4", "m5"}
    assert [(parked.message_id, parked.error) for parked in file.parked()] == [
        ("m1", "its process died whenever it was delivered")
    ]


def test_processes_that_die_of_something_else_park_nothing(file: OnFile) -> None:
    consumer = Consumer()
    append(file, *range(3))
    for _ in range(20):  # each is asked to deliver, finds its consumer away, and dies for reasons of its own
        consumer.refused = {"m0": ConnectionError("down")}
        assert delivery(consumer).step(file, file) == "postponed"
    consumer.refused = {}
    run(delivery(consumer), file)
    assert (consumer.taken, list(file.parked())) == (["m0", "m1", "m2"], [])


def test_what_was_taken_and_not_acknowledged_comes_again(file: OnFile, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer()
    append(file, *range(2))

    def dies(_kind: str, cursor: OutboxCursor) -> None:
        if cursor.delivered_seq >= 0:
            raise Killed

    monkeypatch.setattr(file, "move", dies)
    with pytest.raises(Killed):
        run(delivery(consumer), file)
    monkeypatch.undo()
    run(delivery(consumer), file)
    assert consumer.taken == ["m0", "m1"] * 2


def test_a_parked_message_can_be_handed_over_again(file: OnFile) -> None:
    consumer = Consumer()
    consumer.refused["m0"] = ValueError("not yet")
    append(file, 0)
    one = delivery(consumer)
    run(one, file)
    message = file.store.message_at(0)
    assert one.take(message) is False
    consumer.refused = {}
    assert one.take(message) is True
    file.store.remove_parked_message(kind="follow", seq=0)
    assert list(file.parked()) == []


def test_a_parked_message_handed_over_again_waits_for_the_batch_at_hand(file: OnFile) -> None:
    begun, let_go = threading.Event(), threading.Event()
    at_once: list[int] = []

    class Slow(Consumer):
        inside = 0

        def deliver(self, conversation: ConversationIdentity, messages: Sequence[StoredMessage]) -> None:
            self.inside += 1
            at_once.append(self.inside)
            begun.set()
            let_go.wait(0.3)
            super().deliver(conversation, messages)
            self.inside -= 1

    append(file, 0, 1)
    one = delivery(Slow())
    again = threading.Thread(target=lambda: one.take(file.store.message_at(0)))
    again.start()
    assert begun.wait(5)
    run(one, file)
    again.join()
    assert at_once == [1, 1]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("follow", "names no consumer"),
        ("follow=module", "names no consumer"),
        ("=a:b", "names no consumer"),
        ("follow=perdure.nothing:There", "cannot be loaded (ModuleNotFoundError"),
        ("follow=json:dumps", "cannot be loaded (TypeError"),
        ("follow=collections:OrderedDict", "is a OrderedDict without `deliver`"),
    ],
)
def test_a_consumer_that_cannot_be_used_is_refused_by_name(entry: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_consumers(replace(SETTINGS, consumers=(entry,)))
    assert str(refused.value).startswith("outbox.consumers")
    assert said in str(refused.value)


def test_two_consumers_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="stands there twice"):
        consumer_places(replace(SETTINGS, consumers=("follow=a:b", "follow=c:d")))


def test_consumers_are_loaded_by_kind() -> None:
    loaded = load_consumers(replace(SETTINGS, consumers=("follow=tests.unit.test_outbox:Consumer",)))
    assert [(kind, type(consumer).__name__) for kind, consumer in loaded.items()] == [("follow", "Consumer")]


def test_the_runtimes_own_consumer_has_a_name_that_no_other_can_take() -> None:
    with pytest.raises(SettingsError, match="'index' is the runtime's own consumer"):
        consumer_places(replace(SETTINGS, consumers=("index=a:b",)))
    assert consumer_kinds(replace(SETTINGS, consumers=("follow=a:b",))) == {"index", "follow"}
    assert consumer_kinds(replace(SETTINGS, index=False)) == frozenset()
