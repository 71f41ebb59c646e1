"""Attributes that sentences and keys call by their names: "my favourite colour is blue"."""

from __future__ import annotations

import re
from collections.abc import Callable

from .claim_subjects import OWNER, SPEAKER, owner_of
from .claim_times import read_time
from .claim_words import ADJECTIVES, DIET, LANGUAGE, MARITAL, OCCUPATION, is_proper, words_folded

_MOST_WORDS = 5
_NO_VALUE = re.compile(
    r"[,;:]|\b(?:i|you|he|she|it|we|they|not|to|for|than|as|with|about|like|when|by|from|very|so|too)\b", re.IGNORECASE
)
_NEUTRAL = frozenset({"new", "current", "present", "actual", "own"})


def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern, re.IGNORECASE).fullmatch


_WITH_DIGITS = _matches(r"(?:about |around )?[$€£]?[\d.,]+(?:k|m)?(?: ?[\w$€£%/]+){0,3}")
_PHONE = _matches(r"\+?[\d ()/-]{5,}")
_PASSWORD = _matches(r"\S+")
_NAMED: tuple[tuple[str, Callable[[str], object], str], ...] = (
    # The attribute, what its values look like, and what it is called.
    ("name", is_proper, "name|first name"),
    ("full name", is_proper, "full name"),
    ("last name", is_proper, "last name|surname|family name"),
    ("username", _matches(r"\S+"), "username|user name|login"),
    ("age", _matches(r"\d{1,3}"), "age"),
    ("phone", _PHONE, "phone|phone number|number|telephone number|mobile number|cell number|mobile|cell phone number"),
    ("email", _matches(r"\S+@\S+"), "email|email address|e-mail|e-mail address|mail address"),
    ("address", _matches(r"\d+.*|.* \d+.*"), "address|home address|postal address"),
    ("residence", is_proper, "home city|city of residence|place of residence|home"),
    ("country", is_proper, "country|country of residence|home country"),
    ("employer", is_proper, "employer|company|workplace"),
    ("occupation", OCCUPATION.fullmatch, "job|occupation|profession|position|role"),
    ("occupation", _matches(r"\w+(?: \w+){0,3}"), "job title|title"),
    ("salary", _WITH_DIGITS, "salary|income"),
    ("marital", _matches(MARITAL), "marital status|relationship status"),
    ("diet", _matches(rf"{DIET}|keto|paleo|ketogenic|halal|kosher"), "diet"),
    ("time zone", _matches(r"[A-Z][\w/+:-]*"), "time zone|timezone"),
    ("weight", _WITH_DIGITS, "weight"),
    ("height", _WITH_DIGITS, "height"),
    ("shoe size", _WITH_DIGITS, "shoe size"),
    ("shirt size", _matches(r"\w{1,4}"), "shirt size|t-shirt size"),
    ("blood type", _matches(r"(?:A|B|AB|0|O)(?: ?[+-]| positive| negative)?"), "blood type|blood group"),
    *(
        (attribute, is_proper, phrases)
        for attribute, phrases in (
            ("boss", "boss|manager|supervisor"),
            ("doctor", "doctor|gp|physician"),
            ("dentist", "dentist"),
            ("therapist", "therapist"),
            ("landlord", "landlord"),
            ("wife", "wife"),
            ("husband", "husband"),
            ("girlfriend", "girlfriend"),
            ("boyfriend", "boyfriend"),
            ("fiance", "fiance|fiancee"),
            ("best friend", "best friend"),
        )
    ),
    ("car", is_proper, "car"),
    ("budget", _WITH_DIGITS, "budget"),
    ("price", _WITH_DIGITS, "price"),
    ("version", _WITH_DIGITS, "version"),
    ("password", _PASSWORD, "password|passcode|pin"),
    ("major", _matches(r"[a-z]+(?: [a-z]+)?"), "major"),
    ("language", _matches(LANGUAGE), "preferred language|reply language|interface language"),
    ("currency", _matches(r"\w+"), "currency|preferred currency"),
    ("theme", _matches("dark|light"), "theme|preferred theme"),
)
_BY_PHRASE = {phrase: (attribute, fits) for attribute, fits, phrases in _NAMED for phrase in phrases.split("|")}


def attribute_named(phrase: str) -> tuple[str, str, bool, Callable[[str], object]] | None:
    """Read "my wife's favourite colour".

    Returns:
        Whose it is, the attribute, whether it is called new, and what tells whether a value is one of it. None: it
        is no attribute that is known to have a single value at a time.
    """
    owner, rest = SPEAKER, phrase
    owned = OWNER.fullmatch(phrase)
    if owned is not None:
        owner, rest = owner_of(owned["owner"]), owned["rest"]
        while (inner := re.fullmatch(r"(?P<whose>[\w -]{1,30})'s (?P<rest>.+)", rest)) is not None:
            owner, rest = f"{owner} {inner['whose'].lower()}".strip(), inner["rest"]
    elif not phrase.lower().startswith(("favorite", "favourite")):
        return None
    parts = words_folded(rest).split()
    words = [word for word in parts if word not in _NEUTRAL]
    is_new = "new" in parts
    if words[:1] == ["favorite"] and 2 <= len(words) <= 4 and not words[-1].endswith("s"):
        return owner, " ".join(words), is_new, bool
    for size in range(len(words), 0, -1):
        known = _BY_PHRASE.get(" ".join(words[-size:]))
        if known is not None:
            attribute, fits = known
            return owner, " ".join([*words[:-size], attribute]), is_new, fits
    return None


def value_named(text: str, fits: Callable[[str], object]) -> str | None:
    """A value as it follows "is"; None if it is none, but says how something is."""
    plain = re.sub(r"^(?:an?|the) ", "", text, flags=re.IGNORECASE)
    joined = re.sub(r"(?<=\d),(?=\d)|, (?=[A-Z])", "", plain)
    if len(plain.split()) > _MOST_WORDS or _NO_VALUE.search(joined) or not fits(plain):
        return None
    return None if is_description(plain) or read_time(text) is not None else words_folded(plain)


def is_description(text: str) -> bool:
    """Does it say how something is, or that it is not known?"""
    return text.casefold().rpartition(" ")[2] in ADJECTIVES
