"""Half an emoji or a NUL in a text must not lose it.

preset-io/agor PR#2253; agent0ai/agent-zero#1773; THU-MAIC/OpenMAIC#1493; ayunis-core/ayunis-core PR#1613
"""

from __future__ import annotations

import json

import pytest

from perdure.storage.text import check_text, clean_text, cut_text

FAMILY = "👨‍👩‍👧‍👦"
RIGHT_TO_LEFT = "\u200f\u05e9\u05dc\u05d5\u05dd\u200e \u202eabc\u202c"
COMBINING = "e\u0301 n\u0303 ก็"


def test_half_an_emoji_and_a_nul_are_replaced_and_what_stands_around_them_stays() -> None:
    assert clean_text(f"{FAMILY}\ud83d {COMBINING}\0 end\udc00") == f"{FAMILY}\ufffd {COMBINING}\ufffd end\ufffd"


@pytest.mark.parametrize(
    "text", [FAMILY, RIGHT_TO_LEFT, COMBINING, "\ufeffbom", "a\u200db", "\x01\x1b[0m", "\U0010ffff"]
)
def test_valid_text_stays_byte_identical(text: str) -> None:
    assert clean_text(text).encode("utf-8") == text.encode("utf-8")
    assert check_text(text, "text", 1000) == text


def test_an_escape_pair_decoded_half_by_half_becomes_its_character() -> None:
    half_by_half = json.loads('"\\ud83d"') + json.loads('"\\ude00"')
    assert len(half_by_half) == 2
    assert clean_text(f"ok {half_by_half}!") == "ok 😀!"


def test_a_pair_in_the_wrong_order_is_two_lone_halves() -> None:
    assert clean_text("\ude00\ud83d") == "\ufffd\ufffd"


@pytest.mark.parametrize("max_chars", range(1, 80))
def test_a_cut_at_any_place_leaves_text_that_can_be_stored(max_chars: int) -> None:
    cut = cut_text(clean_text(("😀" + FAMILY + COMBINING) * 20), max_chars)
    assert cut.encode("utf-8").decode("utf-8") == cut
    assert clean_text(cut) == cut
