"""Checkpoints of finished turns go, so that a file grows with what was said and not with what was tried.

langchain-ai/langgraphjs#1138; bytedance/deer-flow PR#4148; indexnetwork/index PR#1088
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.records import TurnId, Usage
from tests.fixtures.conversation_file import (
    a_call,
    a_message,
    a_reply,
    a_result,
    at,
    finish_turn,
    open_store,
    open_turn,
    rows,
)

pytestmark = pytest.mark.cases

TIDY_OVER = 32 * 1024


def words(drawn: random.Random, length: int) -> str:
    """Text that compresses about as well as what people write."""
    return "".join(drawn.choices("etaoin shrdlu cmfwyp vbgkjqxz", k=length))


def run_turn(
    store: ConversationStore, turn_id: str, drawn: random.Random, *, rounds: int = 0, text: int = 1_000
) -> None:
    """A turn of twice `text` characters; its tools find 3,000 characters a round, which stay in no message."""
    turn = TurnId(turn_id)
    open_turn(store, turn_id, message=a_message(f"{turn_id}/user", words(drawn, text), turn_id=turn))
    for number in range(rounds):
        call = a_call(f"c{number}")
        store.record_calls(turn_id=turn, text="", calls=(call,), usage=Usage(), at=at(number))
        store.record_results(turn_id=turn, results=(a_result(call.call_id, words(drawn, 3_000)),), at=at(number))
    answer = words(drawn, text)
    reply = a_message(f"{turn_id}/reply", answer, role="assistant", turn_id=turn)
    finish_turn(store, turn_id, reply=a_reply(turn_id, answer), messages=[reply])
    if store.wal_bytes > TIDY_OVER:
        store.tidy()


def closed_size(store: ConversationStore) -> int:
    store.close()
    return store.path.stat().st_size


def test_five_hundred_turns_of_two_kilobytes_grow_about_linearly(tmp_path: Path) -> None:
    drawn = random.Random(1)
    sizes = []
    store = open_store(tmp_path / "c.duckdb")
    for number in range(500):
        run_turn(store, f"t{number}", drawn)
        if number % 100 == 99:
            sizes.append(closed_size(store))
            store = open_store(store.path)
    store.close()
    growth = [later - earlier for earlier, later in zip([0, *sizes], sizes, strict=False)]
    assert max(growth[1:]) < 2 * min(growth[1:]), sizes
    assert sizes[-1] < 500 * 2_000 * 2, sizes  # messages and replies, compressed


def test_finished_turns_leave_no_checkpoint_and_the_one_in_flight_keeps_all_of_its_own(tmp_path: Path) -> None:
    drawn = random.Random(2)
    store = open_store(tmp_path / "c.duckdb")
    open_turn(store, "in flight")
    turn = TurnId("in flight")
    for number in range(5):
        call = a_call(f"c{number}")
        store.record_calls(turn_id=turn, text="", calls=(call,), usage=Usage(), at=at(number))
        store.record_results(turn_id=turn, results=(a_result(call.call_id, words(drawn, 3_000)),), at=at(number))
    expected = store.checkpoint(turn)
    for number in range(30):
        run_turn(store, f"t{number}", drawn, rounds=3)
    assert rows(store, "SELECT DISTINCT checkpoint_key FROM turn_checkpoints") == [("turn:in flight",)]
    store.close()
    store = open_store(store.path)
    assert store.checkpoint(turn) == expected
    store.close()


def test_a_file_is_not_larger_for_the_tool_rounds_its_turns_had(tmp_path: Path) -> None:
    sizes = []
    for rounds in (0, 10):
        drawn = random.Random(3)
        store = open_store(tmp_path / f"{rounds}.duckdb")
        for number in range(60):
            run_turn(store, f"t{number}", drawn, rounds=rounds, text=100)
        sizes.append(closed_size(store))
    plain, with_rounds = sizes
    assert with_rounds - plain <= 64 * 1024, sizes
