"""The turn's states, repeats and rounds, without Ray."""

from __future__ import annotations

import pytest

from perdure.jobs.turn_events import TextPiece, ToolFinished, ToolStarted
from perdure.storage.errors import (
    ModelUnavailableError,
    TurnAbandonedError,
    TurnConflictError,
    TurnFailedError,
    TurnInProgressError,
)
from perdure.storage.fault_points import FAULT_POINTS
from perdure.storage.records import CallId, TurnId, Usage
from perdure.storage.settings import Settings, TurnSettings

from .turn_harness import BOOK, Harness, ProcessDied, calls, kill_at, kill_never, says

TURN_POINTS = [point for point in FAULT_POINTS if not point.startswith(("migration.", "tidy."))]


def test_a_turn_without_tools_answers_and_stores_two_messages(tmp_path):
    harness = Harness(tmp_path, [says("Hello Ana")])
    reply = harness.send("t", "I am Ana")
    assert (reply.text, reply.turn_id, reply.resumed) == ("Hello Ana", "t", False)
    assert reply.usage == Usage(prompt_tokens=10, completion_tokens=2, model_calls=1)
    assert harness.history() == [("user", "I am Ana"), ("assistant", "Hello Ana")]


def test_a_repeat_of_a_finished_turn_gives_the_stored_reply_and_runs_nothing(tmp_path):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    first = harness.send()
    harness.restart()
    assert harness.send() == first
    assert harness.streamed() == first
    assert (len(harness.model.requests), len(harness.tools.effects)) == (2, 1)
    assert len(harness.history()) == 4


def test_a_repeat_with_another_text_is_a_conflict_and_changes_nothing(tmp_path):
    harness = Harness(tmp_path, [says("Hi")])
    harness.send("t", "One")
    with pytest.raises(TurnConflictError, match="use a new turn_id"):
        harness.send("t", "Two")
    assert harness.history() == [("user", "One"), ("assistant", "Hi")]


def test_tool_rounds_become_message_rows_in_order_when_the_turn_finishes(tmp_path):
    harness = Harness(tmp_path, [calls("a", "b", text="Let me see."), calls("c"), says("Done")])
    reply = harness.send()
    assert harness.history() == [
        ("user", "Book it"),
        ("assistant", "Let me see."),
        ("tool", "result of a"),
        ("tool", "result of b"),
        ("assistant", ""),
        ("tool", "result of c"),
        ("assistant", "Done"),
    ]
    assert reply.text == "Let me see.\n\nDone"
    assert [(call.call_id, call.status) for call in reply.tool_calls] == [(i, "succeeded") for i in "abc"]
    assert reply.usage.model_calls == 3


@pytest.mark.parametrize("point", TURN_POINTS)
@pytest.mark.parametrize("passing", [1, 2, 3])
@pytest.mark.parametrize("tool", ["book", "look"])
def test_a_turn_killed_anywhere_is_continued_by_its_repeat_and_no_finished_tool_runs_again(
    tmp_path, monkeypatch, point, passing, tool
):
    harness = Harness(tmp_path, [calls("a", "b", tool=tool), calls("c", tool=tool), says("Done")])
    kill_at(monkeypatch, point, passing)
    try:
        first = harness.send()
        died = False
    except ProcessDied:
        died = True
        first = None
    finished_before = (
        {r.call_id for one in harness.store.checkpoint(TurnId("t")).rounds for r in one.results}
        if died and harness.store.turn(TurnId("t")) and harness.store.turn(TurnId("t")).state == "open"
        else {"a", "b", "c"}
        if harness.store.turn(TurnId("t"))
        else set()
    )
    effects_before = list(harness.tools.effects)
    harness.restart()
    kill_never(monkeypatch)
    reply = harness.send()
    if first is not None:
        assert reply == first
    assert reply.text == "Done"
    again = harness.tools.effects[len(effects_before) :]
    assert not {call_id for _, call_id in again} & finished_before
    if tool == "book":
        assert len(set(harness.tools.effects)) == len(harness.tools.effects)  # nothing that may have happened again
    statuses = {call.call_id: call.status for call in reply.tool_calls}
    assert set(statuses) == {"a", "b", "c"}
    if tool == "look":
        assert set(statuses.values()) == {"succeeded"}
    for call_id, status in statuses.items():
        if status == "succeeded":
            assert ("t", call_id) in harness.tools.effects
    rows = harness.history()
    assert [role for role, _ in rows] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert harness.store.open_turns() == []


def test_a_turn_with_tools_passes_every_fault_point_of_a_turn(tmp_path, monkeypatch):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    passed = kill_never(monkeypatch)
    harness.send()
    assert list(dict.fromkeys(passed)) == TURN_POINTS


def test_a_call_that_was_started_and_not_finished_is_told_to_the_model_as_unknown(tmp_path, monkeypatch):
    harness = Harness(tmp_path, [calls("a"), says("I cannot tell")])
    kill_at(monkeypatch, "result.arrived")
    with pytest.raises(ProcessDied):
        harness.send()
    kill_never(monkeypatch)
    harness.restart()
    reply = harness.send()
    assert reply.resumed
    assert [call.status for call in reply.tool_calls] == ["unknown"]
    assert harness.tools.effects == [("t", "a")]
    shown = harness.model.requests[-1].messages[-1]
    assert shown.role == "tool" and "may have happened" in shown.content


def test_a_turn_whose_process_dies_three_times_ends_as_failed_and_a_repeat_says_so(tmp_path, monkeypatch):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    for _ in range(3):
        kill_at(monkeypatch, "turn.context_built")
        with pytest.raises(ProcessDied):
            harness.send()
        harness.restart()
    kill_never(monkeypatch)
    for _ in range(2):
        with pytest.raises(TurnFailedError, match="died 3 times"):
            harness.send()
        harness.restart()
    assert harness.send("next", "Go on").text == "Done"


def test_a_failing_model_leaves_the_turn_open_and_a_repeat_continues_from_its_results(tmp_path):
    harness = Harness(tmp_path, [calls("a"), ModelUnavailableError("m", "overloaded")])
    for _ in range(5):  # more often than a process may die
        with pytest.raises(ModelUnavailableError, match="same turn_id continues it") as caught:
            harness.send()
        assert caught.value.turn_id == "t"
        harness.restart()
    harness.model.steps = [calls("a"), says("Done")]
    reply = harness.send()
    assert (reply.text, reply.resumed, harness.tools.effects) == ("Done", True, [("t", "a")])


def test_another_turn_takes_a_broken_one_over_once_it_is_untouched_for_45_s(tmp_path, monkeypatch):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    harness.tools.sessions = {"a": ("browser-7",)}
    kill_at(monkeypatch, "result.committed")
    with pytest.raises(ProcessDied):
        harness.send("broken", "Book it")
    kill_never(monkeypatch)
    harness.restart()
    harness.model.steps = [says("Booked already")]

    harness.clock.pass_s(45)
    assert not harness.send("early", "And?").resumed
    assert harness.store.turn(TurnId("broken")).state == "open"

    harness.clock.pass_s(1)
    reply = harness.send("late", "And now?")
    assert reply.resumed
    seen = harness.model.requests[-1].messages
    texts = [message.content for message in seen]
    result_at = next(place for place, text in enumerate(texts) if "result of a" in text)
    assert result_at < texts.index("And now?")
    assert any("browser-7" in text for text in texts)
    broken = harness.store.turn(TurnId("broken"))
    assert (broken.state, broken.absorbed_by) == ("abandoned", "late")
    assert harness.store.open_turns() == []
    assert harness.send("broken", "Book it") == reply
    assert harness.tools.effects == [("broken", "a")]
    assert [role for role, _ in harness.history()[-4:]] == ["user", "assistant", "tool", "assistant"]


def test_after_its_checkpoint_expired_a_repeat_starts_anew_on_the_stored_message(tmp_path, monkeypatch):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    kill_at(monkeypatch, "result.committed")
    with pytest.raises(ProcessDied):
        harness.send()
    kill_never(monkeypatch)
    harness.restart()
    harness.clock.pass_s(24 * 3600 + 1)
    harness.model.steps = [calls("b"), says("Done anew")]
    assert harness.send("other", "Hi").text  # an expired turn is not taken over
    assert harness.store.turn(TurnId("t")).state == "open"
    harness.model.steps = [calls("a"), says("Done anew")]
    reply = harness.send()
    assert (reply.text, reply.resumed) == ("Done anew", False)
    assert harness.tools.effects.count(("t", "a")) == 1  # its result was used, though no longer shown
    assert [content for role, content in harness.history() if role == "user"] == ["Book it", "Hi"]


def test_a_call_id_that_a_model_uses_again_for_another_call_is_a_call_of_its_own(tmp_path):
    harness = Harness(tmp_path, [calls("x"), calls("x", tool="look"), says("Done")])
    reply = harness.send()
    assert [call.call_id for call in reply.tool_calls] == ["x", "x~2"]
    assert len(harness.tools.effects) == 2


def test_a_model_that_never_stops_calling_is_made_to_answer_and_else_fails(tmp_path):
    settings = Settings(turn=TurnSettings(max_tool_rounds=2))
    harness = Harness(tmp_path, [calls("a"), calls("b"), calls("c")], settings)
    with pytest.raises(TurnFailedError, match="after 2 rounds"):
        harness.send()
    assert harness.model.requests[-1].tools == ()
    assert len(harness.tools.effects) == 2
    harness.model.steps = [calls("d"), calls("e"), says("Enough")]
    assert harness.send("next").text == "Enough"


def test_an_unknown_tool_and_malformed_arguments_end_as_failed_and_the_turn_goes_on(tmp_path):
    bad = calls("a", tool="nosuch")
    harness = Harness(tmp_path, [bad, says("Sorry")])
    assert harness.send().tool_calls[0].status == "failed"
    assert "no tool 'nosuch'" in harness.history()[2][1]
    assert harness.tools.effects == []


def test_cancelling_leaves_what_was_done_in_the_history_and_refuses_the_repeat(tmp_path):
    harness = Harness(tmp_path, [calls("a"), says("Done")])
    harness.cancellation.checks_left = 2
    with pytest.raises(TurnAbandonedError):
        harness.send()
    assert [role for role, _ in harness.history()] == ["user", "assistant", "tool"]
    assert harness.store.open_turns() == []
    with pytest.raises(TurnAbandonedError, match="new turn_id"):
        harness.send()
    assert harness.send("next").text == "Done"


def test_notes_written_by_the_model_are_committed_with_their_result_and_applied_once(tmp_path, monkeypatch):
    from perdure.jobs.chat_model import ChatReply
    from perdure.storage.records import ToolCall

    append = ChatReply(
        text="",
        tool_calls=(
            ToolCall(call_id=CallId("n"), name="set_context", arguments='{"notes": "likes tea", "mode": "append"}'),
        ),
        usage=Usage(),
    )
    for point in ("calls.committed", "result.before_commit", "result.committed", "turn.before_finish"):
        harness = Harness(tmp_path / point, [append, says("Noted")])
        kill_at(monkeypatch, point)
        with pytest.raises(ProcessDied):
            harness.send()
        kill_never(monkeypatch)
        harness.restart()
        assert harness.send().text == "Noted"
        assert harness.store.working_state().notes == "likes tea"
        assert harness.history()[2] == ("tool", "Notes saved (9 characters).")


def test_streamed_pieces_are_the_replys_text_with_their_offsets(tmp_path):
    harness = Harness(tmp_path, [calls("a", text="Looking it up."), says("All done here.")])
    events = harness.events()
    text = ""
    for event in events:
        if isinstance(event, TextPiece):
            assert event.offset == len(text)
            text += event.text
    assert text == events[-1].reply.text == "Looking it up.\n\nAll done here."
    kinds = [type(event) for event in events if not isinstance(event, TextPiece)]
    assert kinds[:2] == [ToolStarted, ToolFinished]


def test_while_a_drivers_turn_is_fresh_others_are_told_which_turn_is_in_progress(tmp_path):
    harness = Harness(tmp_path, [says("Hi")])
    turns = harness.conversation.driver_turns
    turns.begin(harness.request("mine", "Book a table"))
    harness.clock.pass_s(45)
    for attempt in (lambda: harness.send("other", "Hi"), lambda: turns.begin(harness.request("other", "Hi"))):
        with pytest.raises(TurnInProgressError, match="'mine'") as caught:
            attempt()
        assert caught.value.retryable
    assert harness.store.turn(TurnId("other")) is None
    harness.clock.pass_s(1)
    assert harness.send("other", "Hi").text == "Hi"
    assert harness.store.turn(TurnId("mine")).absorbed_by == "other"


def test_the_model_is_offered_the_agents_tools_and_those_of_working_memory(tmp_path):
    harness = Harness(tmp_path, [says("Hi")])
    harness.send()
    names = {tool.name for tool in harness.model.requests[0].tools}
    assert BOOK.name in names
    assert {"set_context", "set_ongoing_task", "get_ongoing_task", "clear_ongoing_task"} <= names


def test_no_id_that_a_caller_chooses_meets_the_id_of_another_message(tmp_path):
    from perdure.jobs.conversation import ImportedMessage

    harness = Harness(tmp_path, [calls("x"), calls("y"), says("Done")])
    ids = ["turn:reply:a", "turn:user:a", "imported:turn:reply:a", "a/0/0", "reply:a"]
    older = [ImportedMessage(role="user", text=f"older {i}", created_at=harness.clock.now(), message_id=i) for i in ids]
    assert harness.conversation.import_messages(older) == len(ids)
    for turn_id in ("a", "a/0", "reply:a", "0:a", "0.0:a", "user:a"):
        assert harness.send(turn_id, "Book it").text == "Done"
    assert harness.conversation.import_messages(older) == 0
    rows = harness.store.page_before(None, 1000)
    assert len({row.message_id for row in rows}) == len(rows) == len(ids) + 6 * 6
