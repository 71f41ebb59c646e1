"""A checkpoint that cannot be read is a loud error, never a silent None, and its good steps are still there.

langchain-ai/langgraph#6970; langchain-ai/langgraph#7066; langchain-ai/langgraph#9021
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import perdure.storage.conversation_store
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.database import Database
from perdure.storage.errors import CheckpointUnreadableError, FileCorruptError
from perdure.storage.records import TurnId, Usage
from tests.fixtures.conversation_file import (
    IDENTITY,
    a_call,
    a_result,
    at,
    finish_turn,
    open_store,
    open_turn,
    rows,
    stored_tables,
)

pytestmark = pytest.mark.cases

STORAGE = Path(perdure.storage.conversation_store.__file__).parent
T1 = TurnId("t1")
TRUNCATE = "UPDATE turn_checkpoints SET body = left(body, length(body) - 9) WHERE step = 2"
DAMAGES = {
    "unknown kind": ("UPDATE turn_checkpoints SET kind = 'plan' WHERE step = 2", "unknown kind of step 'plan'"),
    "higher version": (
        """UPDATE turn_checkpoints SET body = replace(body, '"v":1', '"v":7') WHERE step = 2""",
        "format version 7, this code reads 1",
    ),
    "no version": (
        """UPDATE turn_checkpoints SET body = replace(body, '"v":1,', '') WHERE step = 2""",
        "format version None",
    ),
    "truncated": (TRUNCATE, "damaged JSON"),
    "empty": ("UPDATE turn_checkpoints SET body = '' WHERE step = 2", "damaged JSON"),
    "null": ("UPDATE turn_checkpoints SET body = 'null' WHERE step = 2", "NoneType"),
    "a list": ("UPDATE turn_checkpoints SET body = '[1]' WHERE step = 2", "list"),
    "field gone": (
        """UPDATE turn_checkpoints SET body = replace(body, '"usage"', '"costs"') WHERE step = 2""",
        "usage",
    ),
    "field of another type": (
        """UPDATE turn_checkpoints SET body = replace(body, '"text":"second"', '"text":17') WHERE step = 2""",
        "text expected, int found",
    ),
    "a call of another type": (
        """UPDATE turn_checkpoints SET body = '{"v":1,"text":"","calls":["c3"],"usage":[0,0,0,0]}' WHERE step = 2""",
        "calls garbled",
    ),
    "results without a list": (
        """UPDATE turn_checkpoints SET kind = 'results', body = '{"v":1,"results":4}' WHERE step = 2""",
        "results garbled",
    ),
    "an unknown status": (
        """UPDATE turn_checkpoints SET kind = 'results', body =
        '{"v":1,"results":[{"id":"c3","status":"odd","preview":"","at":"2024-01-01T00:00:00+00:00"}]}'
        WHERE step = 2""",
        "call status 'odd'",
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A turn with four steps: calls, results, calls, results."""
    path = tmp_path / "c.duckdb"
    store = open_store(path)
    open_turn(store, "t1")
    for number, text in ((1, "first"), (3, "second")):
        store.record_calls(turn_id=T1, text=text, calls=(a_call(f"c{number}"),), usage=Usage(), at=at(number))
        store.record_results(turn_id=T1, results=(a_result(f"c{number}"),), at=at(number + 1))
    store.close()
    return path


def damaged(path: Path, sql: str) -> ConversationStore:
    database = Database.open(path, "conversation")
    with database.transaction() as transaction:
        transaction.execute(sql)
    database.close()
    return open_store(path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_an_error_that_names_conversation_turn_step_and_version_and_its_good_steps_stay(
    path: Path, damage: str
) -> None:
    sql, problem = DAMAGES[damage]
    store = damaged(path, sql)
    assert not store.is_checkpoint_readable(T1)
    with pytest.raises(CheckpointUnreadableError, match=problem) as raised:
        store.checkpoint(T1)
    error = raised.value
    assert (error.conversation_id, error.turn_id) == (IDENTITY.conversation_id, "t1")
    assert (error.step, error.readable_steps) == (2, 2)
    assert repr(IDENTITY.conversation_id) in str(error)

    (good,) = store.readable_checkpoint(T1).rounds
    assert (good.text, good.results) == ("first", (a_result("c1"),))
    assert store.readable_checkpoint(T1).touched_at == at(4)
    store.close()


def test_it_takes_no_further_step_that_would_be_lost_behind_the_damage(path: Path) -> None:
    store = damaged(path, TRUNCATE)
    before = stored_tables(store)
    with pytest.raises(CheckpointUnreadableError):
        store.record_calls(turn_id=T1, text="", calls=(a_call("c9"),), usage=Usage(), at=at(9))
    with pytest.raises(CheckpointUnreadableError):
        store.record_results(turn_id=T1, results=(a_result("c3"),), at=at(9))
    assert stored_tables(store) == before
    store.close()


def test_the_turn_can_be_given_up_or_absorbed_and_nothing_of_it_stays(path: Path) -> None:
    store = damaged(path, TRUNCATE)
    open_turn(store, "t2")
    finish_turn(store, "t2", absorbed=[T1])
    assert rows(store, "SELECT * FROM turn_checkpoints") == []
    absorbed = store.turn(T1)
    assert absorbed is not None
    assert (absorbed.state, absorbed.absorbed_by) == ("abandoned", "t2")
    store.close()


def test_attempts_are_counted_behind_the_damage(path: Path) -> None:
    store = damaged(path, TRUNCATE)
    store.begin_attempt(turn_id=T1, at=at(9))
    store.close()
    store = open_store(path)
    (counted,) = store.open_turns()
    assert (counted.attempts_begun, counted.attempted_at) == (2, at(9))
    assert store.reader().turns.turn(T1) == counted
    with pytest.raises(CheckpointUnreadableError) as raised:
        store.checkpoint(T1)
    assert raised.value.step == 2
    store.close()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"v":1,"begun":2}', "ended"),
        ('{"v":1,"begun":2,"ended":-1}', "-1"),
        ('{"v":1,"begun":true,"ended":0}', "True"),
        ('{"v":2,"begun":2,"ended":0}', "format version 2"),
        ('{"v":1,"beg', "damaged JSON"),
    ],
)
def test_an_attempt_that_cannot_be_read_makes_the_checkpoint_unreadable_and_the_count_before_it_stays(
    path: Path, body: str, problem: str
) -> None:
    store = open_store(path)
    store.begin_attempt(turn_id=T1, at=at(8))
    store.begin_attempt(turn_id=T1, at=at(9))
    store.close()
    store = damaged(path, f"UPDATE turn_checkpoints SET body = '{body}' WHERE step = 5")
    with pytest.raises(CheckpointUnreadableError, match=problem) as raised:
        store.checkpoint(T1)
    assert raised.value.step == 5
    (counted,) = store.open_turns()
    assert (counted.attempts_begun, counted.attempted_at) == (2, at(8))
    assert store.reader().turns.open_turns() == [counted]
    store.close()


def test_another_turn_of_the_conversation_is_not_affected(path: Path) -> None:
    store = damaged(path, TRUNCATE)
    open_turn(store, "t2")
    store.record_calls(turn_id=TurnId("t2"), text="", calls=(a_call("c1"),), usage=Usage(), at=at(9))
    store.close()
    store = open_store(path)
    assert store.checkpoint(TurnId("t2")).rounds[0].calls == (a_call("c1"),)
    store.close()


@pytest.mark.parametrize("change", ["left(turn_end, 20)", """replace(turn_end, '"v":1', '"v":2')""", "'[]'"])
def test_a_stored_end_of_a_turn_that_cannot_be_read_is_an_error_that_names_the_file(path: Path, change: str) -> None:
    store = open_store(path)
    finish_turn(store, "t1")
    store.close()
    store = damaged(path, f"UPDATE chat_messages SET turn_end = {change} WHERE turn_end IS NOT NULL")
    with pytest.raises(FileCorruptError, match="end") as raised:
        store.turn(T1)
    assert raised.value.path == str(path)
    store.close()


@pytest.mark.parametrize("change", ["left(turn_opening, 20)", """replace(turn_opening, '"v":1', '"v":2')""", "'[]'"])
def test_a_stored_opening_of_a_turn_that_cannot_be_read_is_an_error_that_names_the_file(
    path: Path, change: str
) -> None:
    store = open_store(path)
    finish_turn(store, "t1")
    open_turn(store, "t2")
    store.close()
    for condition, look in (("turn_id = 't1'", lambda store: store.turn(T1)), ("turn_id = 't2'", lambda _: None)):
        with pytest.raises(FileCorruptError, match="opening") as raised:
            look(damaged(path, f"UPDATE chat_messages SET turn_opening = {change} WHERE {condition}"))
        assert raised.value.path == str(path)


def test_nothing_in_storage_unpickles() -> None:
    for module in STORAGE.glob("**/*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in [*node.names, ast.alias(name=getattr(node, "module", None) or "")]
        }
        assert not names & {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}, module


def test_what_is_stored_is_plain_json(path: Path) -> None:
    store = open_store(path)
    finish_turn(store, "t1")
    (body,) = rows(store, "SELECT turn_end FROM turn_ends")
    assert json.loads(str(body[0]))["reply"]["text"] == "Booked"
    store.close()
