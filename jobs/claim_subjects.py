"""Whom or what a sentence is about, in a form in which it can be told from others."""

from __future__ import annotations

import re

from .claim_words import PEOPLE, is_proper, words_folded, words_of

SPEAKER = ""
"""The person whose memories they are: "I", "the user", or nobody named."""
PRONOUNS = words_of("it he she they this that these those someone somebody everyone everybody you nobody one")
"""Words for somebody or something that only a text before could name."""

OWNER = re.compile(r"(?P<owner>my|our|the user's|user's|the|[^\W\d_][\w-]*'s) (?P<rest>.+)", re.IGNORECASE)
_MOST_WORDS = 4


def owner_of(text: str) -> str:
    """Whose, from "my" or "Ana's"."""
    folded = text.lower()
    return SPEAKER if folded in ("my", "the user's", "user's") else folded.removesuffix("'s")


def subject_of(text: str) -> str | None:
    """The subject that a sentence begins with; None if it cannot be told from others."""
    lower = text.lower()
    if lower in ("", "i", "user", "the user"):
        return SPEAKER
    if lower == "we":
        return lower
    if len(lower.split()) > _MOST_WORDS or lower in PRONOUNS:
        return None
    owned = OWNER.fullmatch(text)
    if owned is None:
        return words_folded(text) if is_proper(text, 3) else None
    if not re.fullmatch(r"[\w '-]+", owned["rest"]):
        return None
    return words_folded(f"{owner_of(owned['owner'])} {owned['rest']}")


def is_person(text: str) -> bool:
    """Is the subject that a sentence begins with somebody, and not something of theirs?"""
    return OWNER.fullmatch(text) is None or not PEOPLE.isdisjoint(text.lower().split())
