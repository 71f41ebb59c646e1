"""Ending and making again what has the same id raises no error about keys, whatever else reads meanwhile.

duckdb/duckdb#16520; duckdb/duckdb#16604; duckdb/duckdb#4886; duckdb/duckdb#25399
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.records import TurnId, Usage, WorkingState
from tests.fixtures.conversation_file import (
    a_call,
    a_message,
    a_result,
    at,
    finish_turn,
    open_store,
    open_turn,
    rows,
)

pytestmark = pytest.mark.cases


@contextmanager
def an_old_transaction(store: ConversationStore) -> Iterator[None]:
    """A reader whose transaction began before and stays open."""
    reader = store.reader().database
    reader.query("SELECT 1")
    reader._connection.execute("BEGIN TRANSACTION")
    before = reader.query("SELECT count(*) FROM chat_messages")
    reader.query("SELECT count(*) FROM turn_checkpoints")
    yield
    assert reader.query("SELECT count(*) FROM chat_messages") == before
    reader._connection.execute("COMMIT")
    reader.close()


@pytest.mark.parametrize("count", [1, 10, 10_000])
def test_messages_sent_again_are_stored_once(tmp_path: Path, count: int) -> None:
    store = open_store(tmp_path / "c.duckdb")
    messages = [a_message(f"m{place}", f"text {place}") for place in range(count)]
    with an_old_transaction(store):
        assert store.append_messages(messages=messages) == count
        assert store.append_messages(messages=messages) == 0
    store.close()
    store = open_store(store.path)
    with an_old_transaction(store):
        assert store.append_messages(messages=messages) == 0
        assert store.append_messages(messages=[*messages, a_message("one more")]) == 1
    assert rows(store, "SELECT count(*), count(DISTINCT message_id) FROM chat_messages") == [(count + 1,) * 2]
    store.close()


@pytest.mark.parametrize("count", [1, 10, 100])
def test_checkpoints_of_the_same_call_ids_come_and_go_turn_after_turn(tmp_path: Path, count: int) -> None:
    store = open_store(tmp_path / "c.duckdb")
    with an_old_transaction(store):
        for number in range(count):
            turn = TurnId(f"t{number}")
            open_turn(store, turn)
            store.record_calls(turn_id=turn, text="", calls=(a_call("c1"),), usage=Usage(), at=at(number))
            store.record_results(turn_id=turn, results=(a_result("c1"),), at=at(number))
            finish_turn(store, turn)
    assert rows(store, "SELECT count(*) FROM turn_checkpoints") == [(0,)]
    assert rows(store, "SELECT count(*) FROM chat_messages WHERE turn_end IS NOT NULL") == [(count,)]
    store.close()


def test_a_checkpoint_of_ten_thousand_steps_goes_in_one_transaction(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c.duckdb")
    turn = TurnId("t1")
    open_turn(store, turn)
    with store._database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO turn_checkpoints (checkpoint_key, step, kind, body, recorded_at)"
            " SELECT 'turn:t1', step, 'results', '{\"v\":1,\"results\":[]}', TIMESTAMP '2024-01-01'"
            " FROM range(10000) AS steps (step)"
        )
    store.close()
    store = open_store(store.path)
    with an_old_transaction(store):
        store.record_calls(turn_id=turn, text="", calls=(a_call("c1"),), usage=Usage(), at=at(1))
        finish_turn(store, turn)
        open_turn(store, "t2")
        store.record_calls(turn_id=TurnId("t2"), text="", calls=(a_call("c1"),), usage=Usage(), at=at(2))
    assert rows(store, "SELECT checkpoint_key, step FROM turn_checkpoints") == [("turn:t2", 0)]
    store.close()


def test_attempts_count_and_rows_that_are_updated_stay_single_under_an_old_transaction(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c.duckdb")
    open_turn(store, "t1")
    with an_old_transaction(store):
        for number in range(50):
            store.begin_attempt(turn_id=TurnId("t1"), at=at(number))
            store.set_working_state(working_state=WorkingState(notes=f"note {number}"))
    (turn,) = store.reader().turns.open_turns()
    assert turn.attempts_begun == 51
    assert rows(store, "SELECT notes FROM conversation") == [("note 49",)]
    store.close()
