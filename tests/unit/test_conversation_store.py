"""What a conversation's store keeps, in memory and in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.storage import conversation_store, message_log
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.database import Database
from perdure.storage.errors import (
    ContactMismatchError,
    FileCorruptError,
    MessageConflictError,
    StorageError,
    TurnConflictError,
    TurnNotFoundError,
    TurnNotOpenError,
)
from perdure.storage.records import (
    AgentName,
    CallId,
    ContactId,
    ConversationId,
    ConversationIdentity,
    Message,
    TurnId,
    Usage,
    WorkingState,
)
from perdure.storage.replay import WriteCall
from tests.fixtures.conversation_file import (
    BEGIN,
    IDENTITY,
    a_call,
    a_message,
    a_reply,
    a_result,
    an_overlay,
    at,
    difference,
    finish_turn,
    open_store,
    open_turn,
    rows,
    stored_tables,
    view,
)
from tests.fixtures.random_steps import RandomSteps


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    opened = open_store(tmp_path / "c.duckdb")
    yield opened
    opened.close()


def reopened(store: ConversationStore) -> ConversationStore:
    """Close a store, open its file again, and check that it says the same."""
    before = view(store)
    store.close()
    again = open_store(store.path)
    assert difference(before, view(again)) == []
    return again


T1 = TurnId("t1")
T2 = TurnId("t2")


# --- who it is -----------------------------------------------------------------------------------------------


def test_a_file_keeps_its_identity_and_the_time_of_its_creation(store: ConversationStore) -> None:
    again = ConversationStore.open(reopened_path(store), replace(IDENTITY, contact=None), BEGIN + timedelta(days=9))
    assert again.identity == IDENTITY
    assert rows(again, "SELECT created_at FROM conversation") == [(BEGIN.replace(tzinfo=None),)]
    again.close()


def reopened_path(store: ConversationStore) -> Path:
    store.close()
    return store.path


def test_another_contact_is_refused_and_the_file_is_free_again(store: ConversationStore) -> None:
    path = reopened_path(store)
    with pytest.raises(ContactMismatchError, match="telegram:1234"):
        open_store(path, replace(IDENTITY, contact=ContactId("email:ana@example.org")))
    open_store(path).close()


def test_a_conversation_without_a_contact_takes_none_later(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    open_store(path, replace(IDENTITY, contact=None)).close()
    with pytest.raises(ContactMismatchError, match="without a contact"):
        open_store(path)
    open_store(path, replace(IDENTITY, contact=None)).close()


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, agent=AgentName("other")),
        replace(IDENTITY, conversation_id=ConversationId("other"), contact=None),
    ],
)
def test_the_file_of_another_conversation_is_refused(store: ConversationStore, other: ConversationIdentity) -> None:
    path = reopened_path(store)
    with pytest.raises(FileCorruptError, match="support/42") as raised:
        open_store(path, other)
    assert str(path) in str(raised.value)
    open_store(path).close()


# --- turns and checkpoints -----------------------------------------------------------------------------------


def test_a_turn_opens_with_its_message_and_with_an_attempt_if_the_runtime_runs_it(
    store: ConversationStore,
) -> None:
    opened = open_turn(store, "t1")
    driven = open_turn(store, "t2", owner="driver")
    assert (opened.state, opened.user_seq, opened.attempts_begun, opened.attempts_ended) == ("open", 0, 1, 0)
    assert (driven.user_seq, driven.attempts_begun) == (1, 0)
    again = reopened(store)
    assert list(again.open_turns()) == [opened, driven]
    assert again.message_at(1).message_id == "t2/user"
    again.close()


def test_a_turn_opens_in_one_statement_and_ends_in_one(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = Database._execute

    def noting(self: Database, connection: object, sql: str, parameters: Sequence[object] = ()) -> object:
        sent.append(" ".join(sql.split()[:3]))
        return execute(self, connection, sql, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "_execute", noting)
    open_turn(store, "t1")
    assert sent == ["INSERT INTO chat_messages"]
    sent.clear()
    finish_turn(store, "t1")
    assert sent == ["INSERT INTO chat_messages"]


def test_a_turn_keeps_the_time_it_was_opened_beside_the_time_of_its_message(store: ConversationStore) -> None:
    open_turn(store, "t1", seconds=30, message=a_message("t1/user", turn_id=T1, created_at=at(2)))
    store = reopened(store)
    finish_turn(store, "t1", seconds=40)
    store = reopened(store)
    turn = store.turn(T1)
    assert turn is not None
    assert (turn.opened_at, turn.attempted_at, store.message_at(0).created_at) == (at(30), at(30), at(2))
    store.close()


def test_attempts_are_counted_and_touch_the_turn(store: ConversationStore) -> None:
    open_turn(store, "t1")
    store.end_attempt(turn_id=T1, at=at(10))
    store.begin_attempt(turn_id=T1, at=at(60))
    store.begin_attempt(turn_id=T1, at=at(61))
    again = reopened(store)
    turn = again.turn(T1)
    assert turn is not None
    assert (turn.attempts_begun, turn.attempts_ended, turn.attempted_at) == (3, 1, at(61))
    assert again.checkpoint(T1).touched_at == at(61)
    again.close()


def test_a_clock_that_goes_back_does_not_make_a_turn_look_untouched(store: ConversationStore) -> None:
    open_turn(store, "t1", seconds=100)
    store.begin_attempt(turn_id=T1, at=at(50))
    store.record_calls(turn_id=T1, text="", calls=(a_call("c1"),), usage=Usage(), at=at(20))
    again = reopened(store)
    assert again.checkpoint(T1).touched_at == at(100)
    again.close()


def test_calls_stand_as_started_before_any_result_and_results_come_in_parts(store: ConversationStore) -> None:
    open_turn(store, "t1")
    calls = (a_call("c1"), a_call("c2"), a_call("c3"))
    usage = Usage(prompt_tokens=7, completion_tokens=3, model_calls=1, is_estimated=True)
    store.record_calls(turn_id=T1, text="Let me look", calls=calls, usage=usage, at=at(1))
    store = reopened(store)
    (asked,) = store.checkpoint(T1).rounds
    assert (asked.text, asked.calls, asked.usage, asked.asked_at) == ("Let me look", calls, usage, at(1))
    assert asked.unfinished == calls

    later = a_result("c3", "third", sessions_opened=("s1", "s2"), sessions_closed=("s1",), finished_at=at(2))
    store.record_results(turn_id=T1, results=(later,), at=at(2))
    store = reopened(store)
    failed = a_result("c1", "no\0 \ud7ff👨‍👩‍👧", status="timed_out", finished_at=datetime(2024, 3, 1, tzinfo=UTC))
    store.record_results(turn_id=T1, results=(failed,), at=at(3))
    store = reopened(store)

    (asked,) = store.checkpoint(T1).rounds
    assert asked.results == (later, failed)
    assert [call.call_id for call in asked.unfinished] == ["c2"]
    assert store.checkpoint(T1).open_sessions == ("s2",)
    assert store.checkpoint(T1).touched_at == at(3)
    store.close()


def test_results_of_unknown_calls_are_ignored_and_a_first_result_stays(store: ConversationStore) -> None:
    open_turn(store, "t1")
    store.record_calls(turn_id=T1, text="", calls=(a_call("c1"), a_call("c2")), usage=Usage(), at=at(1))
    store.record_results(turn_id=T1, results=(a_result("c9"), a_result("c1", "one")), at=at(2))
    store.record_results(turn_id=T1, results=(a_result("c1", "two"),), at=at(3))
    store.record_results(turn_id=T1, results=(a_result("c2", "first"), a_result("c2", "second")), at=at(4))
    store = reopened(store)
    assert [result.preview for result in store.checkpoint(T1).rounds[0].results] == ["one", "first"]
    store.close()


def test_results_reach_calls_of_earlier_rounds(store: ConversationStore) -> None:
    open_turn(store, "t1")
    store.record_calls(turn_id=T1, text="", calls=(a_call("c1"),), usage=Usage(), at=at(1))
    store.record_calls(turn_id=T1, text="", calls=(a_call("c2"),), usage=Usage(), at=at(2))
    store.record_results(turn_id=T1, results=(a_result("c2"), a_result("c1")), at=at(3))
    store = reopened(store)
    assert [len(each.results) for each in store.checkpoint(T1).rounds] == [1, 1]
    store.close()


def test_a_round_that_a_driver_ran_is_stored_whole(store: ConversationStore) -> None:
    open_turn(store, "t1", owner="driver")
    store.record_round(turn_id=T1, text="x", calls=(a_call("c1"),), results=(a_result("c1"),), usage=Usage(), at=at(5))
    store = reopened(store)
    assert store.checkpoint(T1).rounds[0].results == (a_result("c1"),)
    store.close()


def test_results_and_the_working_state_they_changed_are_one_step(store: ConversationStore) -> None:
    open_turn(store, "t1")
    state = WorkingState(notes="Window seat", ongoing_task="book", recent_changes=("a", "b"))
    store.record_results(turn_id=T1, results=(a_result("c1"),), at=at(2), working_state=state)
    store = reopened(store)
    assert store.working_state() == state
    store.close()


@pytest.mark.parametrize("end", ["finished", "failed", "abandoned"])
def test_a_turn_that_ends_leaves_messages_and_no_checkpoint_and_takes_no_step(
    store: ConversationStore, end: str
) -> None:
    open_turn(store, "t1")
    open_turn(store, "t2")
    for turn_id in (T1, T2):
        store.record_calls(turn_id=turn_id, text="", calls=(a_call("c1"),), usage=Usage(), at=at(1))
    untouched = store.checkpoint(T2)
    messages = [
        a_message("t1/1", "", role="assistant", tool_calls=(a_call("c1"),), turn_id=T1),
        a_message(
            "t1/1/1", "found", role="tool", call_id=CallId("c1"), tool_name="search", status="failed", turn_id=T1
        ),
    ]
    if end == "finished":
        store.finish_turn(turn_id=T1, reply=a_reply("t1"), messages=messages, at=at(9))
    elif end == "failed":
        store.fail_turn(turn_id=T1, error="the model is gone", messages=messages, at=at(9))
    else:
        store.abandon_turn(turn_id=T1, messages=messages, at=at(9))

    store = reopened(store)
    turn = store.turn(T1)
    assert turn is not None
    assert (turn.state, turn.ended_at) == (end, at(9))
    assert turn.reply == (a_reply("t1") if end == "finished" else None)
    assert turn.error == ("the model is gone" if end == "failed" else None)
    assert [message.seq for message in store.page_before(None, 9)] == [0, 1, 2, 3]
    assert store.message_at(2).tool_calls == (a_call("c1"),)
    assert store.message_at(3).status == "failed"
    assert rows(store, "SELECT DISTINCT checkpoint_key FROM turn_checkpoints") == [("turn:t2",)]
    assert store.checkpoint(T2) == untouched
    before = stored_tables(store)
    with pytest.raises(TurnNotOpenError, match=end):
        store.record_calls(turn_id=T1, text="", calls=(a_call("c2"),), usage=Usage(), at=at(10))
    with pytest.raises(TurnNotOpenError):
        finish_turn(store, "t1")
    with pytest.raises(TurnNotFoundError, match="t9"):
        store.begin_attempt(turn_id=TurnId("t9"), at=at(10))
    assert stored_tables(store) == before
    store.close()


def test_absorbed_turns_end_with_the_one_that_took_them_over(store: ConversationStore) -> None:
    for turn_id in ("t1", "t2", "t3"):
        open_turn(store, turn_id)
        store.record_calls(turn_id=TurnId(turn_id), text="", calls=(a_call("c1"),), usage=Usage(), at=at(1))
    finish_turn(store, "t3", absorbed=[T1, T2])
    store = reopened(store)
    absorbed = [store.turn(turn_id) for turn_id in (T1, T2)]
    assert [(turn.state, turn.absorbed_by, turn.reply) for turn in absorbed if turn] == [("abandoned", "t3", None)] * 2
    assert store.open_turns() == []
    assert rows(store, "SELECT * FROM turn_checkpoints") == []
    store.close()


def test_a_turn_id_that_is_taken_opens_no_second_turn(store: ConversationStore) -> None:
    open_turn(store, "t1")
    finish_turn(store, "t1")
    before = stored_tables(store)
    with pytest.raises(TurnConflictError):
        open_turn(store, "t1", message=a_message("another"))
    assert stored_tables(store) == before


# --- messages ------------------------------------------------------------------------------------------------


def test_messages_appended_again_are_stored_once_and_other_content_is_a_conflict(
    store: ConversationStore,
) -> None:
    first = [a_message(f"m{place}", f"text {place}", speaker="Ana") for place in range(3)]
    assert store.append_messages(messages=first) == 3
    assert store.append_messages(messages=[*first, a_message("m3"), a_message("m3")]) == 1
    store = reopened(store)
    for changed in (
        a_message("m1", "other", speaker="Ana"),
        a_message("m1", "text 1", speaker="Bo"),
        a_message("m1", "text 1", speaker="Ana", role="assistant"),
    ):
        with pytest.raises(MessageConflictError, match="m1"):
            store.append_messages(messages=[a_message("new"), changed])
    with pytest.raises(MessageConflictError, match="twice"):
        store.append_messages(messages=[a_message("twice", "a"), a_message("twice", "b")])
    assert [message.message_id for message in store.page_before(None, 9)] == ["m0", "m1", "m2", "m3"]
    assert store.append_messages(messages=[]) == 0
    store.close()


def test_a_turns_message_never_shares_an_id_with_another_message(store: ConversationStore) -> None:
    store.append_messages(messages=[a_message("t1/reply", "imported")])
    open_turn(store, "t1")
    before = stored_tables(store)
    with pytest.raises(MessageConflictError, match="t1/reply"):
        finish_turn(store, "t1")
    assert stored_tables(store) == before
    assert difference(view(store), view(reopened(store))) == []


def test_an_import_of_many_messages_keeps_order_and_every_field(store: ConversationStore) -> None:
    messages = [
        a_message(
            f"m{place}",
            f"text {place}",
            role="assistant" if place % 2 else "user",
            speaker=None if place % 3 else "Ana",
            created_at=at(-place),
            tokens=place,
        )
        for place in range(3_000)
    ]
    assert store.append_messages(messages=messages) == 3_000
    store = reopened(store)
    stored = store.page_before(None, 5_000)
    assert [message.seq for message in stored] == list(range(3_000))
    assert [replace_seq(message) for message in stored] == messages
    store.close()


def replace_seq(message: Message) -> Message:
    return Message(
        **{
            name: getattr(message, name)
            for name in Message.__dataclass_fields__
        }
    )  # fmt: skip


class Cached:
    """A store with a small cache, beside what its file says."""

    def __init__(self, path: Path) -> None:
        self.store = open_store(path)
        self.reader = self.store.reader()

    def agree(self, seq: int | None, count: int) -> None:
        disk = self.reader.messages
        assert self.store.page_before(seq, count) == disk.page_before(seq, count)
        assert list(self.store.head(count)) == disk.head(count)
        assert self.store.message_count() == disk.count()
        assert self.store.next_seq == disk.count()


Sizes = st.lists(st.integers(0, 60), max_size=8)
Page = st.tuples(st.none() | st.integers(0, 60), st.integers(0, 30))


@settings(max_examples=15)
@example(steps=[("append", [1] * 6), ("reopen", None), ("append", [1]), ("append", [1, 1])])
@given(
    steps=st.lists(
        st.one_of(Sizes.map(lambda sizes: ("append", sizes)), Page.map(lambda page: ("page", page)),
                  st.just(("reopen", None))),
        max_size=30,
    )
)  # fmt: skip
def test_pages_from_memory_are_the_pages_of_the_file(
    steps: list[tuple[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cache") / "c.duckdb"
    cached = Cached(path)
    made = 0
    with pytest.MonkeyPatch.context() as patch:  # so few that short runs pass the limits
        patch.setattr(message_log, "CACHED_MESSAGES", 7)
        patch.setattr(message_log, "CACHED_CHARS", 150)
        for kind, argument in steps:
            if kind == "append" and isinstance(argument, list):
                cached.store.append_messages(
                    messages=[a_message(f"m{made + place}", "x" * size) for place, size in enumerate(argument)]
                )
                made += len(argument)
                cached.agree(None, 5)
            elif kind == "page" and isinstance(argument, tuple):
                cached.agree(*argument)
            else:
                cached.store.close()
                cached = Cached(path)
    cached.store.close()


def test_the_cache_fills_again_after_reopening_though_messages_came_first(store: ConversationStore) -> None:
    store.append_messages(messages=[a_message(f"m{place}") for place in range(50)])
    store = reopened(store)
    store.close()
    store = open_store(store.path)
    store.append_messages(messages=[a_message("new")])
    first = store.page_before(None, 10)
    store.page_before(first[0].seq, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Database, "query")
        assert len(store.page_before(None, 20)) == 20
    store.close()


def test_contents_beyond_the_limit_leave_the_cache_but_not_the_file(store: ConversationStore) -> None:
    big = "y" * (message_log.CACHED_CHARS // 2)
    store.append_messages(messages=[a_message(f"m{place}", big) for place in range(5)])
    assert len(store._messages._newest) <= 2
    assert [len(message.content) for message in store.page_before(None, 10)] == [len(big)] * 5
    assert len(store._messages._newest) <= 2


# --- beside the turns ----------------------------------------------------------------------------------------


def test_working_state_and_overlays_survive_and_an_overlay_is_stored_once(store: ConversationStore) -> None:
    store.set_working_state(working_state=WorkingState(notes="n\0\u2028", ongoing_task="", recent_changes=()))
    store.add_overlay(overlay=an_overlay("o2", 8, 12))
    store.add_overlay(overlay=an_overlay("o1", 2, 7))
    store.add_overlay(overlay=an_overlay("o1", 3, 4))
    store = reopened(store)
    assert store.working_state().ongoing_task == ""
    assert store.overlays() == [an_overlay("o1", 2, 7), an_overlay("o2", 8, 12)]
    store.close()


def test_a_reader_sees_what_is_committed_and_the_open_turns(store: ConversationStore) -> None:
    reader = store.reader()
    open_turn(store, "t1")
    store.record_calls(turn_id=T1, text="", calls=(a_call("c1"),), usage=Usage(), at=at(7))
    open_turn(store, "t2", seconds=8)
    assert [(turn.turn_id, touched, rounds) for turn, touched, rounds in reader.open_turns()] == [
        ("t1", at(7), 1),
        ("t2", at(8), 0),
    ]
    store.begin_attempt(turn_id=T2, at=at(12))
    store.end_attempt(turn_id=T1, at=at(11))
    assert [(touched, rounds) for _, touched, rounds in reader.open_turns()] == [(at(11), 1), (at(12), 0)]
    assert reader.turns.open_turns() == store.open_turns()
    assert reader.turns.turn(T2) == store.turn(T2)
    finish_turn(store, "t1")
    assert reader.turns.turn(T1) == store.turn(T1)
    assert [turn.turn_id for turn, _, _ in reader.open_turns()] == ["t2"]
    assert [message.message_id for message in reader.messages.of_turn(T2)] == ["t2/user"]
    assert reader.messages.between(0, 0)[0].message_id == "t1/user"
    assert reader.turns.turn(TurnId("t3")) is None
    assert reader.working_state() == store.working_state()
    assert reader.overlays() == []


def test_tidying_folds_the_log_and_is_due_later_for_a_larger_file(store: ConversationStore) -> None:
    store.append_messages(messages=[a_message(f"m{place}", f"{place}" * 500) for place in range(100)])
    assert store.wal_bytes > 100_000
    assert store.needs_tidying(32 * 1024)
    store.tidy()
    assert store.wal_bytes == 0
    assert not store.needs_tidying(32 * 1024)
    store.append_messages(messages=[a_message("small")])
    assert not store.needs_tidying(0)  # though its file is larger than before


# --- memory, disk and failures -------------------------------------------------------------------------------


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_after_any_run_of_steps_the_memory_of_the_store_is_what_its_file_says(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = open_store(tmp_path_factory.mktemp("run") / "c.duckdb")
    for number, call in zip(range(120), RandomSteps(seed, longest_text=400), strict=False):
        getattr(store, call.method)(**call.arguments)
        if number % 20 == 19:
            store = reopened(store)
    store.close()


def one_of_each(seed: int = 11) -> Sequence[tuple[list[WriteCall], WriteCall]]:
    """For each kind of write, the calls before it and itself."""
    calls = [call for _, call in zip(range(400), RandomSteps(seed, longest_text=200), strict=False)]
    last = {call.method: place for place, call in enumerate(calls[:60])}
    return [(calls[:place], calls[place]) for place in last.values()]


@pytest.mark.parametrize(("before", "call"), one_of_each(), ids=lambda given: getattr(given, "method", ""))
def test_a_step_that_fails_at_any_of_its_statements_leaves_memory_and_file_as_they_were(
    before: list[WriteCall], call: WriteCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "c.duckdb")
    for earlier in before:
        getattr(store, earlier.method)(**earlier.arguments)
    memory, file = view(store), stored_tables(store)
    execute = Database._execute

    def failing_at(place: int) -> int:
        """Run the step with a failure at one of its statements; how many statements were begun."""
        begun = 0

        def fails(self: Database, connection: object, sql: str, parameters: Sequence[object] = ()) -> object:
            nonlocal begun
            if self is store._database and not sql.startswith(("SELECT", "ROLLBACK")):
                begun += 1
                if begun == place:
                    raise duckdb.IOException("IO Error: injected")
            return execute(self, connection, sql, parameters)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Database, "_execute", fails)
            with pytest.raises(StorageError, match="injected") as raised:
                getattr(store, call.method)(**call.arguments)
        assert str(store.path) in str(raised.value)
        return begun

    statements = 0
    with monkeypatch.context() as patch:
        patch.setattr(Database, "_write", lambda self, collected: failing_count(collected))

        def failing_count(collected: Sequence[object]) -> None:
            nonlocal statements
            statements = len(collected) if len(collected) == 1 else len(collected) + 2
            raise duckdb.IOException("IO Error: counted")

        with pytest.raises(StorageError, match="counted"):
            getattr(store, call.method)(**call.arguments)

    assert statements >= 1
    for place in range(1, statements + 1):
        assert failing_at(place) == place
        assert difference(view(store), memory) == []
        assert stored_tables(store) == file

    getattr(store, call.method)(**call.arguments)
    assert stored_tables(store) != file
    reopened(store).close()


@pytest.mark.parametrize(
    "point", ["turn.before_open_commit", "calls.before_commit", "result.before_commit", "turn.before_finish_commit"]
)
def test_an_exception_between_a_steps_writes_leaves_memory_and_file_as_they_were(
    store: ConversationStore, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_turn(store, "t1")
    store.record_calls(turn_id=T1, text="", calls=(a_call("c1"),), usage=Usage(), at=at(1))
    memory, file = view(store), stored_tables(store)

    def interrupt(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    monkeypatch.setattr(conversation_store, "fault_point", interrupt)
    steps: dict[str, Callable[[], object]] = {
        "turn.before_open_commit": lambda: open_turn(store, "t2"),
        "calls.before_commit": lambda: store.record_calls(
            turn_id=T1, text="", calls=(a_call("c2"),), usage=Usage(), at=at(2)
        ),
        "result.before_commit": lambda: store.record_results(
            turn_id=T1, results=(a_result("c1"),), at=at(2), working_state=WorkingState(notes="changed")
        ),
        "turn.before_finish_commit": lambda: finish_turn(store, "t1"),
    }
    with pytest.raises(KeyboardInterrupt):
        steps[point]()
    assert difference(view(store), memory) == []
    assert stored_tables(store) == file


def test_half_an_emoji_that_slips_through_stores_nothing_of_its_step(store: ConversationStore) -> None:
    open_turn(store, "t1")
    memory, file = view(store), stored_tables(store)
    with pytest.raises(duckdb.InvalidInputException, match="surrogate"):
        store.append_messages(messages=[a_message("good"), a_message("bad", "half \ud83d")])
    with pytest.raises(duckdb.InvalidInputException, match="surrogate"):
        store.record_results(turn_id=T1, results=(a_result("c1", "half \ud83d"),), at=at(1))
    assert difference(view(store), memory) == []
    assert stored_tables(store) == file
    reopened(store).close()
