"""When one memory replaces another by the rules of the embedded decision model."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.jobs.memory_questions import ShownMemory
from perdure.jobs.replacement import Replacement, replacement
from tests.fixtures.replacing_pairs import Figures, replacing_pairs

PAIRS = replacing_pairs()
KEYS = sorted({pair.key_old for pair in PAIRS})
WORDS = sorted({word for pair in PAIRS for word in f"{pair.text_old} {pair.text_new}".split()})
LEAST_PRECISION = 0.97
LEAST_RECALL = 0.6


def replaces(earlier: str, later: str, keys: tuple[str, str] = ("a", "b"), *, is_whole: bool = True) -> bool:
    old = ShownMemory(key=keys[0], text=earlier, is_whole=is_whole)
    return replacement(old, ShownMemory(key=keys[1], text=later, is_whole=is_whole)).replaces


@pytest.mark.parametrize("is_held_out", [False, True])
def test_hardly_anything_is_superseded_wrongly_and_most_of_what_is_outdated_is_found(is_held_out: bool) -> None:
    half = [pair for pair in PAIRS if pair.is_held_out == is_held_out]
    figures = Figures.of(half)
    assert len(half) > 100
    assert figures.precision >= LEAST_PRECISION, figures
    assert figures.recall >= LEAST_RECALL, figures


def test_what_is_said_to_contradict_does() -> None:
    answers = [(pair.contradicts, replacement(pair.old, pair.new).contradicts) for pair in PAIRS]
    made_up, found = answers.count((False, True)), answers.count((True, True))
    assert found / (found + made_up) >= LEAST_PRECISION


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("My favourite colour is blue", "My favorite color is green now"),
        ("Ana lives in Lisbon", "Ana moved to Porto"),
        ("Ana works at Acme", "Ana works for Globex now"),
        ("Ana likes tea", "Ana no longer likes tea"),
        ("I’m married", "I’m divorced"),
        ("Ana doesn't have a car", "Ana has a car now"),
        ("My son is 5 years old", "My son turned 6"),
        ("My friend Rita likes tea", "My friend Rita doesn't like tea"),
        ("The meeting is on 3 June", "The meeting was moved from 3 June to 10 June"),
        ("Ana drinks coffee every morning", "Ana stopped drinking coffee"),
    ],
)
def test_another_value_of_what_has_one_at_a_time_replaces(earlier: str, later: str) -> None:
    assert replaces(earlier, later)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        # another subject
        ("Ana lives in Lisbon", "Ana's sister lives in Porto"),
        ("My friend lives in Rome", "My friend moved to Porto"),
        ("He likes tea", "He doesn't like tea"),
        ("Ana's sister lives in Porto", "Ana's sister lives in Faro"),
        ("My wife is Rita", "My former wife is Joana"),
        # side by side
        ("Ana has a cat", "Ana has a dog"),
        ("Ana speaks French", "Ana speaks German"),
        ("I'm allergic to peanuts", "I'm allergic to shellfish"),
        ("Ana works at Acme", "Ana works at Globex too"),
        # past, planned, asked, told, supposed
        ("Ana lives in Lisbon", "Ana used to live in Porto"),
        ("Ana used to live in Porto", "Ana lives in Lisbon"),
        ("Ana lives in Lisbon", "Ana lived in Porto"),
        ("Ana lives in Lisbon", "Ana moved to Porto in 2015"),
        ("Ana lives in Lisbon", "Ana is going to move to Porto"),
        ("Ana lives in Lisbon", "Ana lives in Porto, right?"),
        ("Ana lives in Lisbon", "Bo says Ana moved to Porto"),
        ("Ana lives in Lisbon", "If all goes well, Ana moves to Porto"),
        ("Ana lives in Lisbon", "Ana may live in Porto"),
        ("Ana wants to live in Lisbon", "Ana lives in Porto"),
        ("My favourite colour is blue", "My favourite colour is green?"),
        ("My favourite colour is blue", "My favourite colour is probably green"),
        ("My favourite colour is blue", "My favourite colour is green. Kidding!"),
        ("Ana works at Acme", "Ana left Acme today"),
        ("I live in Lisbon", "I live in Porto for now"),
        # something else of the same subject
        ("Ana lives in Lisbon", "Ana visited Porto"),
        ("Ana lives in Lisbon", "Ana's company moved to Porto"),
        ("Ana is a nurse", "Ana is a mother"),
        ("My car is a Fiat", "My car is red"),
        ("My boss is Carla", "My boss is Portuguese"),
        ("My favourite restaurant is Nonna", "My favourite restaurant is closed"),
        ("My favourite restaurant is Nonna", "My favourite restaurant is nearby"),
        ("My favourite food is sushi", "My favourite food is delicious"),
        ("My ticket is 7", "My ticket is 9"),
        ("My phone is a Pixel", "My phone is 555-0100"),
        ("My meeting is on Monday", "My meeting is on Friday"),
        ("Ana lives in Lisbon", "Ana moved to Acme Street"),
        ("Ana works at Acme", "Ana joined Greenpeace"),
        # the same in other words, or a part of it
        ("Ana lives in Lisbon", "Ana lives in Portugal"),
        ("Ana lives in Lisbon", "Ana lives in Alfama, Lisbon"),
        ("The meeting is at 3 pm", "The meeting starts at 15:00"),
        ("The meeting is at 3 pm", "The meeting starts at 3"),
        ("The meeting is on 3 June", "The meeting is on June 3rd"),
        ("I weigh 80 kg", "I weigh 176 lbs"),
        ("The budget is 500 euros", "The budget is 600 dollars"),
        ("Ana likes tea", "Ana loves tea"),
        ("Ana likes tea", "Ana no longer hates tea"),
        ("Ana is single", "Ana is divorced"),
        ("I eat meat on Fridays", "I don't eat meat"),
        ("I like Rome", "I don't like Rome in August"),
        # more than one statement would be lost
        ("Ana lives in Lisbon and works at Acme", "Ana moved to Porto"),
    ],
)
def test_it_leaves_standing_what_may_still_be_true(earlier: str, later: str) -> None:
    assert not replaces(earlier, later)


@pytest.mark.parametrize(
    ("keys", "is_replaced"),
    [
        (("home_city", "city"), True),
        (("user.home.city", "residence"), True),
        (("home_city", "office_city"), False),
        (("home_city", "sister.city"), False),
        (("home_city", "note"), False),
    ],
)
def test_a_bare_value_is_what_its_key_says(keys: tuple[str, str], is_replaced: bool) -> None:
    assert replaces("Lisbon", "Porto", keys) == is_replaced


def test_a_form_that_may_mean_something_else_needs_a_key_that_says_what_it_means() -> None:
    assert replaces("Ana works at Acme", "Ana joined Globex", ("employer", "job.change"))
    assert not replaces("Ana works at Acme", "Ana joined Globex", ("employer", "club"))


def test_that_a_value_is_not_known_replaces_none() -> None:
    assert not replaces("Acme", "unknown", ("employer", "company"))


def test_whose_a_statement_without_a_subject_is_stands_in_its_key() -> None:
    assert replaces("Likes tea", "No longer likes tea", ("drink", "drink.tea"))
    assert not replaces("Likes tea", "No longer likes tea", ("son.tea", "tea"))


@pytest.mark.parametrize("text", ["Moro em Lisboa", "我住在北京", "Ana lives in Lisbon", "x" * 1000])
def test_the_same_text_once_more_replaces_and_contradicts_nothing(text: str) -> None:
    again = replacement(
        ShownMemory(key="a", text=text, is_whole=True), ShownMemory(key="b", text=f" {text.upper()}.", is_whole=True)
    )
    assert again == Replacement(replaces=True, contradicts=False)


def test_two_texts_of_which_only_parts_are_seen_are_not_the_same() -> None:
    assert not replaces("a long story", "a long story", is_whole=False)


def test_a_correction_needs_to_name_what_was_said_and_its_key_where_it_names_no_subject() -> None:
    said = "The meeting is on Monday"
    assert replaces(said, "Actually it is Tuesday, not Monday", ("meeting", "meeting.day"))
    assert not replaces(said, "Actually it is Tuesday, not Monday", ("meeting", "gym"))
    assert not replaces(said, "Actually it is Tuesday, not Wednesday", ("meeting", "meeting.day"))


@given(
    st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join) | st.text(max_size=80),
    st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join) | st.text(max_size=80),
    st.sampled_from(KEYS),
    st.sampled_from(KEYS) | st.text(min_size=1, max_size=20),
)
def test_any_two_texts_are_judged_and_what_replaces_also_contradicts_unless_it_is_the_same(
    earlier: str, later: str, key_old: str, key_new: str
) -> None:
    old = ShownMemory(key=key_old, text=earlier, is_whole=True)
    new = ShownMemory(key=key_new, text=later, is_whole=True)
    found = replacement(old, new)
    assert found.replaces or not found.contradicts
    assert not (found.contradicts and earlier.casefold() == later.casefold())


@pytest.mark.parametrize("piece", ["my a ", "moved to ", "not ", "A, ", "is ", "Ana's ", "1", "a"])
def test_a_text_made_to_take_long_does_not(piece: str) -> None:
    text = (piece * 400)[:200]
    began = time.perf_counter()
    for number in range(5):
        replaces(f"{text[:-2]}{number}", f"{text[:-3]}{number}b")
    assert time.perf_counter() - began < 1
