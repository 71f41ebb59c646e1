"""Times as claims name them: what kind of time it is, and which."""

from __future__ import annotations

import re

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?: ?(?P<half>[ap])\.?m\.?)?")
_KINDS = (
    ("weekday", re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)day", re.IGNORECASE)),
    ("clock", re.compile(rf"{_CLOCK.pattern}|noon|midnight", re.IGNORECASE)),
    (
        "date",
        re.compile(
            rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})(?:,? \d{{4}})?"
            rf"|(?:{_MONTHS}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?",
            re.IGNORECASE,
        ),
    ),
    ("ISO date", re.compile(r"\d{4}-\d{2}-\d{2}")),
    ("month", re.compile(rf"(?:{_MONTHS})(?: \d{{4}})?", re.IGNORECASE)),
)
_LEAD = re.compile(r"(?:on|at|in|until)? ?(?:next|this)? ?(?=\S)", re.IGNORECASE)
_DAY = re.compile(r"(\d)(?:st|nd|rd|th)\b")


def read_time(text: str) -> tuple[str, str] | None:
    """What kind of time a text is and which, in one form; None if it is none, or not one for certain."""
    plain = _LEAD.sub("", text, count=1)
    kind = next((kind for kind, pattern in _KINDS if pattern.fullmatch(plain)), None)
    match kind:
        case None:
            return None
        case "clock":
            minutes = _minutes(plain.lower())
            return None if minutes is None else (kind, str(minutes))
        case _:
            words = _DAY.sub(r"\1", plain.lower()).replace(",", "").split()
            return kind, " ".join(sorted(set(words) - {"the", "of"}))


def _minutes(text: str) -> int | None:
    """Minutes after midnight; None for "at 3", which is one of two times."""
    if text in ("noon", "midnight"):
        return 12 * 60 * (text == "noon")
    found = _CLOCK.fullmatch(text)
    if found is None or (found["half"] is None and found["minute"] is None):
        return None
    hour = int(found["hour"])
    if found["half"] is not None:
        hour = hour % 12 + 12 * (found["half"] == "p")
    return hour * 60 + int(found["minute"] or 0)
