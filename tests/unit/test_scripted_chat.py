"""The scripted chat model: what its script says, wherever a turn stands."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.jobs.chat_model import ChatMessage, ChatReply, ChatRequest
from perdure.jobs.scripted_chat import (
    CallTools,
    FailWith,
    Pause,
    Rule,
    Say,
    Script,
    ScriptedChat,
    Step,
    script_from_name,
    script_to_name,
)
from perdure.storage.errors import InvalidInputError, ModelRequestError, ModelUnavailableError
from perdure.storage.records import CallId


def script(*steps: Step) -> Script:
    return Script((Rule(None, steps),))


def user(text: str, seq: int | None = 0) -> ChatMessage:
    return ChatMessage(role="user", content=text, seq=seq)


def asked(scripted: Script, *messages: ChatMessage) -> ChatRequest:
    return ChatRequest(model=script_to_name(scripted), messages=messages or (user("Hello"),))


def answered(reply: ChatReply, *results: str) -> list[ChatMessage]:
    """A reply and the results of its calls, as the next request shows them."""
    messages = [ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls)]
    for call, result in zip(reply.tool_calls, results, strict=True):
        content = f"<tool_result status=succeeded>\n{result}\n</tool_result>"
        messages.append(ChatMessage(role="tool", content=content, call_id=call.call_id))
    return messages


TRIP = script(
    CallTools((("search", {"to": "Lisbon"}), ("look", {})), text="Let me look."),
    CallTools((("hold", {"seat": "14C"}),)),
    Say("It is held: {result}. You said: {input}"),
)


def test_a_turn_follows_the_steps_by_the_answers_that_are_there():
    model, messages = ScriptedChat(), [user("To Lisbon")]
    first = model.complete(asked(TRIP, *messages))
    assert first.text == "Let me look."
    assert [(call.name, call.arguments) for call in first.tool_calls] == [
        ("search", '{"to": "Lisbon"}'),
        ("look", "{}"),
    ]
    messages += answered(first, "TP 1957", "nice")
    second = model.complete(asked(TRIP, *messages))
    assert [call.name for call in second.tool_calls] == ["hold"]
    messages += answered(second, "seat 14C")
    assert model.complete(asked(TRIP, *messages)).text == "It is held: seat 14C. You said: To Lisbon"


def test_a_repeated_attempt_makes_the_same_calls_under_the_same_ids():
    first = ScriptedChat().complete(asked(TRIP))
    assert ScriptedChat().complete(asked(TRIP)) == first
    second = ScriptedChat().complete(asked(TRIP, user("Hello"), *answered(first, "a", "b")))
    ids = [call.call_id for call in (*first.tool_calls, *second.tool_calls)]
    assert ids == ["call_0_0", "call_0_1", "call_1_0"]


def test_earlier_turns_and_results_taken_over_do_not_count():
    first = ScriptedChat().complete(asked(TRIP))
    earlier = [user("Hello"), *answered(first, "a", "b"), ChatMessage(role="assistant", content="Done", seq=3)]
    taken_over = user("<tool_result tool=search status=succeeded>\n{}\nTP 1957\n</tool_result>", seq=None)
    again = ScriptedChat().complete(asked(TRIP, *earlier, taken_over, user("Once more", seq=9)))
    assert again.tool_calls == first.tool_calls


def test_what_the_runtime_adds_after_the_input_does_not_hide_it():
    first = ScriptedChat().complete(asked(TRIP))
    added = user("Calls made earlier:\n<earlier_calls>\nlook {} succeeded\n</earlier_calls>", seq=None)
    reply = ScriptedChat().complete(asked(TRIP, user("Go"), added, *answered(first, "a", "b")))
    assert [call.call_id for call in reply.tool_calls] == ["call_1_0"]


def test_the_first_rule_that_fits_the_newest_message_is_followed():
    rules = Script(
        (Rule("weather", (Say("sunny"),)), Rule("WEATHER report", (Say("never"),)), Rule(None, (Say("else"),)))
    )
    model = ScriptedChat()
    assert model.complete(asked(rules, user("The Weather report?"))).text == "sunny"
    assert model.complete(asked(rules, user("The weather?", 0), user("Hello", 1))).text == "else"


def test_it_says_plainly_that_there_is_no_rule_or_no_further_step():
    assert "no rule" in ScriptedChat().complete(asked(Script((Rule("x", (Say("y"),)),)))).text
    done = ChatMessage(role="assistant", content="y")
    assert "no further step" in ScriptedChat().complete(asked(script(Say("y")), user("Hello"), done)).text
    assert "no further step" in ScriptedChat().complete(asked(script())).text


def test_what_a_result_or_a_message_holds_is_not_filled_in_again():
    call = ScriptedChat().complete(asked(script(CallTools((("a", {}),)))))
    messages = [user("{result}"), *answered(call, "{input}")]
    reply = ScriptedChat().complete(asked(script(CallTools((("a", {}),)), Say("{input} {result} {other}")), *messages))
    assert reply.text == "{result} {input} {other}"


def test_without_a_result_there_is_nothing_to_fill_in():
    assert ScriptedChat().complete(asked(script(Say("<{result}>")))).text == "<>"


def test_pauses_come_before_the_answer_that_follows_them():
    slept: list[float] = []
    steps = script(Pause(1.5), Pause(2), Say("a"), Pause(4), Say("b"))
    model = ScriptedChat(sleep=slept.append)
    assert model.complete(asked(steps)).text == "a"
    assert slept == [1.5, 2]
    model.complete(asked(steps, user("Hello"), ChatMessage(role="assistant", content="a")))
    assert slept == [1.5, 2, 4]


@pytest.mark.parametrize(("retryable", "kind"), [(True, ModelUnavailableError), (False, ModelRequestError)])
def test_a_failure_is_of_the_kind_that_the_script_says(retryable, kind):
    model = ScriptedChat()
    for _ in range(3):
        with pytest.raises(kind, match="model 'scripted': overloaded"):
            model.complete(asked(script(FailWith("overloaded", retryable), Say("never"))))


def test_a_failure_with_times_passes_after_so_many_for_each_request():
    model = ScriptedChat()
    steps = script(FailWith("overloaded", times=2), Say("at last"))
    for text in ("one", "two"):
        for _ in range(2):
            with pytest.raises(ModelUnavailableError):
                list(model.stream(asked(steps, user(text))))
        assert model.complete(asked(steps, user(text))).text == "at last"
        assert model.complete(asked(steps, user(text))).text == "at last"


def test_a_changed_system_prompt_is_no_other_request():
    model, steps = ScriptedChat(), script(FailWith("overloaded", times=1), Say("at last"))
    with pytest.raises(ModelUnavailableError):
        model.complete(asked(steps, ChatMessage(role="system", content="It is 10:00"), user("Hello")))
    assert (
        model.complete(asked(steps, ChatMessage(role="system", content="It is 10:01"), user("Hello"))).text == "at last"
    )


def test_a_stream_comes_in_pieces_of_a_few_words():
    text = "  One two three four, five\n\nsix seven eight  "
    *pieces, reply = ScriptedChat().stream(asked(script(Say(text))))
    assert isinstance(reply, ChatReply)
    assert "".join(map(str, pieces)) == reply.text == text
    assert len(pieces) > 2
    assert all(1 <= len(str(piece).split()) <= 3 for piece in pieces)


# --- scripts as names --------------------------------------------------------------------------------------

PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(PLAIN, JSON, max_size=3)
STEPS = st.one_of(
    st.builds(Say, PLAIN),
    st.builds(
        CallTools, st.lists(st.tuples(PLAIN, st.dictionaries(PLAIN, JSON, max_size=3)), max_size=3).map(tuple), PLAIN
    ),
    st.builds(Pause, st.floats(0, 1e6) | st.integers(0, 1000)),
    st.builds(FailWith, PLAIN, st.booleans(), st.none() | st.integers(0, 9)),
)
SCRIPTS = st.builds(
    Script, st.lists(st.builds(Rule, st.none() | PLAIN, st.lists(STEPS, max_size=4).map(tuple)), max_size=3).map(tuple)
)


@given(SCRIPTS)
def test_a_script_survives_its_name(made):
    name = script_to_name(made)
    assert name.startswith("scripted/")
    assert script_from_name(name) == made
    assert script_to_name(script_from_name(name)) == name


@given(SCRIPTS, PLAIN)
def test_any_script_answers_or_fails_as_it_says(made, text):
    request = asked(made, user(text))
    try:
        *pieces, reply = ScriptedChat(sleep=lambda _: None).stream(request)
    except (ModelUnavailableError, ModelRequestError):
        return
    assert isinstance(reply, ChatReply)
    assert "".join(map(str, pieces)) == reply.text
    assert all(re.fullmatch(r"call_\d+_\d+", call.call_id) for call in reply.tool_calls)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "scripted",
        "scripted/",
        "scripted/hello",
        "scripted/{}",
        "scripted/[1]",
        'scripted/[{"when":null}]',
        'scripted/[{"when":3,"steps":[]}]',
        'scripted/[{"when":null,"steps":[{}]}]',
        'scripted/[{"when":null,"steps":"say"}]',
        'scripted/[{"when":null,"steps":[{"say":1}]}]',
        'scripted/[{"when":null,"steps":[{"call":[["a"]],"text":""}]}]',
        'scripted/[{"when":null,"steps":[{"call":[["a",[]]],"text":""}]}]',
        'scripted/[{"when":null,"steps":[{"pause_s":-1}]}]',
        'scripted/[{"when":null,"steps":[{"pause_s":true}]}]',
        "scripted/" + "[" * 5000,
        'other/[{"when":null,"steps":[]}]',
    ],
)
def test_a_malformed_name_is_refused(name):
    with pytest.raises(InvalidInputError, match="script_to_name"):
        script_from_name(name)
    with pytest.raises(ModelRequestError):
        ScriptedChat().complete(ChatRequest(model=name, messages=(user("Hello"),)))


@pytest.mark.parametrize(
    "made",
    [
        Script((Rule(None, (CallTools((("a", {"b": object()}),)),)),)),
        Script((Rule(None, (CallTools((("a", {"b": float("nan")}),)),)),)),
        Script((Rule(None, (Say(3),)),)),  # type: ignore[arg-type]
        Script((Rule(None, (Pause(-1),)),)),
    ],
)
def test_a_script_that_cannot_be_kept_is_refused_where_it_is_made(made):
    with pytest.raises(InvalidInputError):
        script_to_name(made)


def test_a_name_is_readable_json():
    name = script_to_name(script(Say("Olá")))
    assert json.loads(name.removeprefix("scripted/")) == [{"when": None, "steps": [{"say": "Olá"}]}]
    assert "Olá" in name


def test_the_newest_result_is_filled_in_with_or_without_its_tags():
    steps = script(CallTools((("a", {}), ("b", {}))), Say("{result}"))
    messages = [user("Hello"), *answered(ScriptedChat().complete(asked(steps)), "first", "second")]
    assert ScriptedChat().complete(asked(steps, *messages)).text == "second"
    messages[-1] = ChatMessage(role="tool", content="bare", call_id=CallId("call_0_1"))
    assert ScriptedChat().complete(asked(steps, *messages)).text == "bare"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Rule("x", ("ok",)), "Rule.steps"),  # type: ignore[arg-type]
        (lambda: Rule("x", Say("ok")), "Rule.steps"),  # type: ignore[arg-type]
        (lambda: CallTools(("hold_seat", {"seat": 1})), "CallTools.calls"),  # type: ignore[arg-type]
        (lambda: CallTools((("hold_seat", "14C"),)), "CallTools.calls"),  # type: ignore[arg-type]
    ],
)
def test_a_script_put_together_wrongly_is_refused_where_it_is_made(make, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        make()
