"""Answers put together from their parts."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from perdure.jobs.chat_model import ChatMessage, ChatRequest
from perdure.jobs.openai_form import AnswerInParts, openai_messages
from perdure.storage.text import clean_text

REQUEST = ChatRequest(model="m", messages=(ChatMessage(role="user", content="Hello"),))
CHARACTERS = st.sampled_from(["a", "\ud83d", "\ude00", "\x00", "😀", "字"])


def delta(name=None, arguments=None, call_id=None, **index) -> SimpleNamespace:
    return SimpleNamespace(id=call_id, function=SimpleNamespace(name=name, arguments=arguments), **index)


@given(st.lists(st.text(CHARACTERS, max_size=4), max_size=8))
def test_the_pieces_shown_are_the_clean_text_however_it_was_cut(pieces):
    parts = AnswerInParts(REQUEST)
    shown = [parts.add_text(piece) for piece in pieces] + [parts.end_text()]
    assert "".join(shown) == clean_text("".join(pieces)) == parts.reply().text


def test_pieces_of_calls_that_arrive_mixed_are_put_together_by_their_index():
    parts = AnswerInParts(REQUEST)
    parts.add_call_deltas([delta("a", '{"x"', "c1", index=0), delta("b", "{", "c2", index=1)])
    parts.add_call_deltas([delta(arguments="}", index=1)])
    parts.add_call_deltas([delta(arguments=": 1}", index=0)])
    assert [(call.call_id, call.name, call.arguments) for call in parts.reply().tool_calls] == [
        ("c1", "a", '{"x": 1}'),
        ("c2", "b", "{}"),
    ]


def test_pieces_of_calls_without_an_index_follow_their_ids():
    parts = AnswerInParts(REQUEST)
    for piece in (delta("a", "{", "c1"), delta(arguments="}"), delta("b", "{}", "c2")):
        parts.add_call_deltas([piece])
    assert [(call.name, call.arguments) for call in parts.reply().tool_calls] == [("a", "{}"), ("b", "{}")]


def test_arguments_that_a_provider_gives_as_an_object_become_json():
    parts = AnswerInParts(REQUEST)
    parts.add_calls([delta("a", {"x": 1}, "c1")])
    assert parts.reply().tool_calls[0].arguments == '{"x": 1}'


@given(st.text(max_size=80))
def test_a_speaker_is_named_only_in_letters_that_every_provider_takes(speaker):
    [form] = openai_messages([ChatMessage(role="user", content="Hello", speaker=speaker)])
    if "name" in form:
        assert form["name"] == speaker
        assert 1 <= len(speaker) <= 64
        assert speaker.isascii()
        assert speaker.replace("-", "_").isidentifier() or speaker[0] in "0123456789-"
