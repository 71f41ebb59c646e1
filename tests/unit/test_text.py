"""Text at the door: cleaning, cutting, ids and the checks on a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.storage.errors import InvalidInputError
from perdure.storage.text import check_text, clean_text, cut_text, storable_id

ANY_STRING = st.text(st.characters() | st.sampled_from("\0\ud83d\ude00%!\udfff\ud800 a"))


def joined(text: str) -> str:
    """Surrogate pairs joined, by looking at neighbours."""
    characters: list[str] = []
    for character in text:
        before = characters[-1] if characters else ""
        if "\udc00" <= character <= "\udfff" and "\ud800" <= before <= "\udbff" and before:
            code = 0x10000 + ((ord(before) - 0xD800) << 10) + (ord(character) - 0xDC00)
            characters[-1] = chr(code)
        else:
            characters.append(character)
    return "".join(characters)


@given(ANY_STRING)
def test_cleaning_replaces_nul_and_lone_surrogates_joins_pairs_and_keeps_the_rest(text: str) -> None:
    expected = "".join(
        "\ufffd" if character == "\0" or "\ud800" <= character <= "\udfff" else character for character in joined(text)
    )
    assert clean_text(text) == expected


@given(ANY_STRING)
def test_cleaned_text_is_encodable_and_cleaning_it_again_changes_nothing(text: str) -> None:
    once = clean_text(text)
    once.encode("utf-8")
    assert clean_text(once) == once


@given(ANY_STRING, st.integers(-2, 80), st.sampled_from([0.0, 0.25, 1.0]))
def test_a_cut_text_is_never_longer_than_asked(text: str, max_chars: int, kept_end: float) -> None:
    assert len(cut_text(text, max_chars, kept_end=kept_end)) <= max(max_chars, 0)


@given(st.integers(0, 3000), st.integers(40, 400))
def test_the_marker_says_how_many_characters_are_missing(surplus: int, max_chars: int) -> None:
    text = "x" * (max_chars + surplus)
    cut = cut_text(text, max_chars)
    if not surplus:
        assert cut == text
        return
    kept, _, marker = cut.partition("\n[… ")
    said = int(marker.split(" characters left out]")[0].replace(",", ""))
    assert len(kept) + said == len(text)


def test_a_cut_falls_between_code_points_and_can_keep_the_end() -> None:
    text = "👨‍👩‍👧‍👦" * 100
    assert cut_text(text, 100).encode("utf-8")
    both = cut_text("a" * 500 + "z" * 500, 200, kept_end=0.25)
    assert both.startswith("a" * 100)
    assert both.endswith("z" * 30)
    assert "characters left out]\n" in both


@given(ANY_STRING.filter(bool), ANY_STRING.filter(bool))
def test_two_ids_are_stored_as_one_only_if_they_are_the_same_text(first: str, second: str) -> None:
    same = joined(first) == joined(second)
    assert (storable_id(first, "id") == storable_id(second, "id")) == same


@pytest.mark.parametrize(
    "ids",
    [
        ["a\0", "%!a%0000", "%!%0025!a%00250000", "a\\0", "a%0000"],
        ["\0\0", "%0000\0", "\0%0000", "%!%0000%0000"],
        ["\ud83d", "\ude00", "\ufffd", "%!%d83d", "\ude00\ud83d", "\ud83d\ude00"],
    ],
)
def test_ids_that_look_like_each_other_s_stored_form_stay_different(ids: list[str]) -> None:
    assert len({storable_id(one, "id") for one in ids}) == len(ids)


@given(ANY_STRING.filter(bool))
def test_a_stored_id_can_be_encoded_and_holds_no_nul(given_id: str) -> None:
    stored = storable_id(given_id, "id")
    stored.encode("utf-8")
    assert stored
    assert "\0" not in stored


@pytest.mark.parametrize(
    "plain", ["a", " ", "../../etc/passwd", "a/b\\c", "x" * 300, "'\"", "день", "会話", "😀", "%", "tab\t\n"]
)
def test_an_ordinary_id_is_stored_as_it_is(plain: str) -> None:
    assert storable_id(plain, "id") == plain


@pytest.mark.parametrize("wrong", ["", None, 7, b"x"])
def test_an_id_that_is_no_string_or_empty_is_refused_with_its_name(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="conversation_id") as caught:
        storable_id(wrong, "conversation_id")  # type: ignore[arg-type]
    assert "non-empty string" in str(caught.value)


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u3000\u2003", "\u00a0"])
def test_a_blank_text_is_refused(blank: str) -> None:
    with pytest.raises(InvalidInputError, match=r"text: the text is (empty|blank)"):
        check_text(blank, "text", 100)


@pytest.mark.parametrize(("wrong", "kind"), [(None, "None"), (3, "int"), (b"bytes", "bytes"), (["a"], "list")])
def test_what_is_no_text_is_refused_by_its_kind(wrong: object, kind: str) -> None:
    with pytest.raises(InvalidInputError, match=kind):
        check_text(wrong, "text", 100)


def test_a_too_long_text_is_refused_with_both_sizes() -> None:
    with pytest.raises(InvalidInputError, match=r"10,000,000.*1,000,000"):
        check_text("x" * 10_000_000, "text", 1_000_000)
    assert check_text("x" * 1000, "text", 1000) == "x" * 1000


def test_a_checked_text_comes_back_clean() -> None:
    assert check_text("half \ud83d, nul \0, pair \ud83d\ude00", "text", 100) == "half \ufffd, nul \ufffd, pair 😀"
