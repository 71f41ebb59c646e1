"""What is valid text comes back from the file code point by code point, NUL and joined emoji among it.

preset-io/agor PR#2253; agent0ai/agent-zero#1773
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.storage.records import CallId, TurnId, Usage, WorkingState
from tests.fixtures.conversation_file import (
    a_call,
    a_message,
    a_reply,
    a_result,
    at,
    difference,
    finish_turn,
    open_store,
    open_turn,
    view,
)

pytestmark = pytest.mark.cases

TEXTS = (
    "\0",
    "a\0b\0",
    "👨‍👩‍👧‍👦 and 🇯🇵 and 👍🏽",
    "\u200f\u05e9\u05dc\u05d5\u05dd\u200e \u202eabc\u202c",
    "e\u0301 n\u0303",
    "\ufeffbom \ufffd \U0010ffff \ud7ff",
    "\\ud83d\\ude00 \\u0000 \\n",
    "'; DROP TABLE turns; -- \" $1 ? %s {}",
    "line\u2028separator\r\n\t\x1b[0m",
)


def through_the_file(path: Path, text: str) -> None:
    """Put a text in every place that takes one, open the file again, and look."""
    store = open_store(path)
    turn = TurnId(f"turn {text}")
    open_turn(store, turn, message=a_message(f"id {text}", text, speaker=text, turn_id=turn))
    call = a_call(f"call {text}", f"name {text}", text)
    store.record_calls(turn_id=turn, text=text, calls=(call,), usage=Usage(), at=at(1))
    store.record_results(
        turn_id=turn,
        results=(a_result(call.call_id, text, sessions_opened=(f"session {text}",)),),
        at=at(2),
        working_state=WorkingState(notes=text, ongoing_task=text, recent_changes=(text,)),
    )
    in_flight = view(store)
    store.close()
    store = open_store(path)
    assert difference(view(store), in_flight) == []
    assert store.checkpoint(turn).rounds[0].results[0].preview == text

    row = a_message(f"row {text}", text, role="tool", call_id=CallId(call.call_id), tool_name=call.name, turn_id=turn)
    asked = a_message(f"asked {text}", text, role="assistant", tool_calls=(call,), turn_id=turn)
    finish_turn(store, turn, reply=a_reply(turn, text), messages=[asked, row])
    ended = view(store)
    store.close()
    store = open_store(path)
    assert difference(view(store), ended) == []
    assert [message.content for message in store.reader().messages.page_before(None, 9)] == [text] * 3
    finished = store.turn(turn)
    assert finished is not None
    assert finished.reply == a_reply(turn, text)
    store.tidy()
    assert [message.content for message in store.reader().messages.head(9)] == [text] * 3
    store.close()


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    through_the_file(tmp_path / "c.duckdb", text)


@settings(max_examples=5)
@given(text=st.text(min_size=1, max_size=200))
def test_any_text_without_half_a_pair_comes_back_as_it_was(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    through_the_file(tmp_path_factory.mktemp("text") / "c.duckdb", text)
