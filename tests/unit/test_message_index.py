"""Messages are found by what they say and by what they answer, in their scope only, whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.jobs.indexed_message import BEFORE_CHARS, indexed_messages
from perdure.storage.errors import (
    EmbeddedModelError,
    IndexDamagedError,
    IndexUnavailableError,
    InvalidInputError,
    ModelRequestError,
    ModelUnavailableError,
    PerdureError,
)
from perdure.storage.records import CallId, ToolCall
from tests.fixtures.message_index import SETTINGS, Messages, identity, said

TALK = (
    said(0, "What do you have for breakfast?", "user"),
    said(1, "Porridge with blueberries, every day.", "assistant"),
    said(2, "My bicycle was stolen in front of the library.", "user"),
    said(3, "How awful! Did you call the police?", "assistant"),
)


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[Messages]:
    made = Messages(tmp_path / "index")
    yield made
    made.close()


def test_a_message_is_found_by_its_words_by_its_meaning_and_by_both_and_shown_whole(messages: Messages) -> None:
    here = identity("kitchen", "mail:ines")
    messages.index(here, TALK)
    assert messages.texts(here, "blueberries", mode="keyword")[0] == TALK[1].content
    assert messages.texts(here, "somebody took the cycle", mode="semantic")[0] == TALK[2].content
    recalled = messages.recall(here, "Where was the bicycle stolen?", mode="hybrid")
    assert recalled.unanswered == {}
    best = recalled.hits[0]
    shown = best.message
    assert (shown.text, shown.seq, shown.message_id) == (TALK[2].content, 2, "m2")
    assert (shown.role, shown.speaker, shown.created_at) == ("user", None, TALK[2].created_at)
    assert (shown.conversation_id, shown.contact) == ("kitchen", "mail:ines")
    assert {place.channel: place.rank for place in best.ranks} == {"vector": 1, "keyword": 1}
    assert best.score == pytest.approx(2 / 61)
    assert [hit.score for hit in recalled.hits] == sorted((hit.score for hit in recalled.hits), reverse=True)


def test_an_answer_is_found_by_the_words_of_its_question_and_a_message_by_speaker_and_date(messages: Messages) -> None:
    here = identity()
    may = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    messages.index(
        here,
        [
            said(0, "Is there a vaccination that you still need?", "user", "Noor", may),
            said(1, "Tetanus.", "user", "Teo", may),
            said(2, "The train is late.", "user", "Noor", datetime(2024, 1, 1, tzinfo=UTC)),
        ],
    )
    assert messages.texts(here, "vaccination", mode="keyword") == [
        "Is there a vaccination that you still need?",
        "Tetanus.",
        "The train is late.",
    ]
    assert messages.texts(here, "Teo", mode="keyword")[0] == "Tetanus."
    assert set(messages.texts(here, "May 2023", mode="keyword")) == {
        "Is there a vaccination that you still need?",
        "Tetanus.",
    }


def test_what_stands_before_a_batch_counts_and_tool_rows_and_empty_messages_are_passed_over() -> None:
    call = ToolCall(call_id=CallId("1"), name="look", arguments="{}")
    rows = [
        said(0, "Which hotel?"),
        replace(said(1, "", "assistant"), tool_calls=(call,)),
        said(2, "Hotel Lux, 90 EUR", "tool"),
        said(3, " \n", "assistant"),
        said(4, "Be brief.", "system"),
        said(5, "The Lux.", "assistant"),
        said(6, "x" * (BEFORE_CHARS + 1) + "end"),
        said(7, "Good."),
    ]
    whole = list(indexed_messages(identity(), rows, []))
    assert [each.message.seq for each in whole] == [0, 5, 6, 7]
    assert whole[1].keyword_text == "29 February 2024\nassistant: The Lux.\nWhich hotel?"
    assert whole[1].vector_text == "assistant: The Lux."
    assert whole[3].keyword_text.split("\n")[2:] == ["x" * (BEFORE_CHARS - 3) + "end", "The Lux."]
    for cut in range(len(rows)):
        parts = [*indexed_messages(identity(), rows[:cut], []), *indexed_messages(identity(), rows[cut:], rows[:cut])]
        assert parts == whole, cut


def test_a_scope_is_kept_and_holds_each_conversation_of_its_contact(messages: Messages) -> None:
    monday, friday = identity("monday", "ines"), identity("friday", "ines")
    other, alone, foreign = identity("other", "rui"), identity("alone"), identity("monday", "ines", agent="bo")
    for number, where in enumerate((monday, friday, other, alone, foreign)):
        messages.index(where, [said(0, f"The parcel number is {number}.")])

    def found(where: object, **options: object) -> list[str]:
        return sorted(text[-2] for text in messages.texts(where, "parcel number", **options))  # type: ignore[arg-type]

    for mode in ("keyword", "semantic", "hybrid"):
        assert found(monday, mode=mode) == ["0", "1"]
        assert found(monday, mode=mode, scope="conversation") == ["0"]
        assert found(monday, mode=mode, scope="all") == ["0", "1", "2", "3"]
        assert found(alone, mode=mode) == ["3"]
        assert found(other, mode=mode) == ["2"]
        assert found(foreign, mode=mode, scope="all") == ["4"]


def test_ids_that_look_alike_are_messages_of_their_own(messages: Messages) -> None:
    for where in (identity("a:b"), identity("a", agent="ana"), identity("b", agent="ana:a"), identity("a%3Ab")):
        messages.index(where, [said(0, f"I am {where.conversation_id!r} of {where.agent!r}.")])
    assert messages.sources() == (4, 4)


def test_roles_and_limits_are_kept(messages: Messages) -> None:
    here = identity()
    messages.index(here, [said(n, f"number {n} of the list", "assistant" if n % 2 else "user") for n in range(60)])
    assert len(messages.recall(here, "number list").hits) == SETTINGS.conversation_limit
    for mode in ("keyword", "semantic", "hybrid"):
        assert len(messages.recall(here, "number list", limit=55, mode=mode).hits) == 55
    hits = messages.recall(here, "number list", role="assistant", limit=40).hits
    assert {hit.message.role for hit in hits} == {"assistant"}
    assert len(hits) == 30


def test_what_comes_again_is_there_once_and_is_not_embedded_again(messages: Messages) -> None:
    messages.index(identity(), TALK)
    messages.index(identity(), TALK)
    assert messages.sources() == (4, 4)
    assert messages.embedding.embedded == 4


def test_messages_are_on_disk_when_they_count_as_indexed(messages: Messages, tmp_path: Path) -> None:
    messages.index(identity(), TALK)
    again = Messages(tmp_path / "index")
    assert again.texts(identity(), "blueberries", mode="keyword")[0] == TALK[1].content
    assert again.texts(identity(), "breakfast cereal", mode="semantic")
    again.close()


def test_an_index_that_dies_before_its_disk_is_told_again(messages: Messages) -> None:
    messages.vector.deaths = 2
    messages.index(identity(), TALK)
    assert messages.vector.applied == [4, 4, 4]
    messages.vector.deaths = 3
    with pytest.raises(IndexUnavailableError) as failed:
        messages.index(identity(), TALK)
    assert failed.value.retryable


@pytest.mark.parametrize("broken", ["vector", "keyword"])
def test_messages_reach_the_other_index_when_one_is_away_and_do_not_count_as_indexed(
    messages: Messages, broken: str
) -> None:
    index = getattr(messages, broken)
    index.fault = IndexDamagedError("somewhere", "is broken")
    with pytest.raises(IndexDamagedError):
        messages.index(identity(), TALK)
    recalled = messages.recall(identity(), "bicycle stolen")
    if broken == "vector":
        assert recalled.hits[0].message.seq == 2
    assert dict(recalled.unanswered) == {broken: str(index.fault)}
    index.fault = None
    messages.index(identity(), TALK)
    assert messages.sources() == (4, 4)


def test_a_channel_that_hangs_is_named_and_the_other_stands_in(tmp_path: Path) -> None:
    messages = Messages(tmp_path, replace(SETTINGS, channel_timeout_s=0.2))
    messages.index(identity(), TALK)
    messages.vector.hang_s = 30
    recalled = messages.recall(identity(), "bicycle stolen")
    assert recalled.hits[0].message.seq == 2
    assert dict(recalled.unanswered) == {"vector": "it did not answer within 0.2 s"}
    messages.close()


def test_a_message_that_the_embedder_refuses_is_found_by_its_words_and_holds_nobody_up(messages: Messages) -> None:
    messages.embedding.fault, messages.embedding.refused = ModelRequestError("m", "no such text"), "bicycle"
    messages.index(identity(), TALK)
    assert messages.sources() == (3, 4)
    assert TALK[2].content in messages.texts(identity(), "bicycle", mode="keyword")


@pytest.mark.parametrize(
    "fault",
    [
        ModelUnavailableError("m", "down"),
        EmbeddedModelError("m", "no files"),
        ModelRequestError("m", "no key"),  # refuses everything: the fault is not the messages'
    ],
)
def test_an_embedder_that_takes_nothing_keeps_messages_from_counting_as_indexed(
    messages: Messages, fault: PerdureError
) -> None:
    messages.embedding.fault = fault
    with pytest.raises(type(fault)):
        messages.index(identity(), TALK)
    recalled = messages.recall(identity(), "bicycle stolen")
    assert (recalled.hits[0].message.seq, dict(recalled.unanswered)) == (2, {"vector": str(fault)})


def test_a_blank_question_finds_nothing(messages: Messages) -> None:
    messages.index(identity(), TALK)
    assert messages.recall(identity(), " \n").hits == ()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mode": "fuzzy"}, "mode"),
        ({"scope": "everywhere"}, "scope"),
        ({"role": "tool"}, "role"),
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"mode": ["keyword"]}, "mode"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(messages: Messages, options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        messages.recall(identity(), "parcel", **options)
    assert refused.value.field == field
