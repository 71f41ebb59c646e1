"""What a sentence claims: whose, which attribute, which value. Only forms that leave no doubt about it are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .claim_attributes import attribute_named, value_named
from .claim_subjects import is_person, subject_of
from .claim_times import read_time
from .claim_words import (
    DIET,
    ENGAGEMENTS,
    LANGUAGE,
    MANY,
    MARITAL,
    NUMBERS,
    NUMEROUS,
    OCCUPATION,
    is_employer,
    is_place,
    is_proper,
    words_folded,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An attribute of a subject has a value."""

    subject: str
    """Folded; `SPEAKER` for the person whose memories they are."""
    attribute: str
    """One that has a single value at a time."""
    value: str
    """Folded; "" for any."""
    is_name: bool | None = None
    """The value is written as a proper name is. None: its place does not tell."""
    is_change: bool = False
    """The form itself says that it was otherwise before."""
    needs_key: bool = False
    """The form alone is not enough: the memory's key has to name the attribute too."""
    is_over: bool = False
    """The attribute has this value no longer."""

    @property
    def may_be_several(self) -> bool:
        """May there be more than one such subject, or one such value?"""
        whose, _, what = self.subject.rpartition(" ")
        return self.attribute == "car" or what in MANY or (whose.startswith(("my", "our")) and what in ENGAGEMENTS)

    @property
    def is_of_many(self) -> bool:
        """Is it one of so many that it says nothing about another one?"""
        return self.subject.rpartition(" ")[2] in NUMEROUS


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of sentences: what follows the subject."""

    attribute: str
    pattern: re.Pattern[str]
    fits: Callable[[str], object]
    """Is the value one of this attribute?"""
    is_change: bool
    needs_key: bool
    is_over: bool


def _form(
    attribute: str,
    pattern: str,
    fits: Callable[[str], object] = bool,
    *,
    is_change: bool = False,
    needs_key: bool = False,
    is_over: bool = False,
) -> _Form:
    compiled = re.compile(rf"(?:(?P<subject>.+?) )?{pattern}", re.IGNORECASE)
    return _Form(attribute, compiled, fits, is_change, needs_key, is_over)


_VALUE = r"(?P<value>[^.;:]{1,60}?)"
_WHEN = (
    r"(?:,? (?:last \w+|this \w+|yesterday|today|recently|in [A-Z][a-z]+"
    r"|since (?:\d{4}|[A-Z][a-z]+)(?: \d{4})?|until now|on \w+day|(?:a|\w+) (?:days?|weeks?|months?|years?) ago"
    r"|for (?:work|good|a new job)))?"
)
"""Not "in 2015", which may be before what is known."""
_SINCE = (
    r"(?: (?:last (?:week|month|year|spring|summer|autumn|winter)|in [A-Z][a-z]+|(?:a|\w+) (?:months?|years?) ago))?"
)
"""Not "today", when somebody may have left for the day."""
_PERSONAL = frozenset({"age", "marital", "diet"})
_MEASURED = frozenset({"weight", "height", "budget", "salary", "price", "shoe size"})
_BE = r"(?:am|is|are)"
_NUMBER = rf"(?P<value>\d{{1,3}}|{'|'.join(NUMBERS)})"
_FORMS = (
    _form("residence", rf"(?:{_BE} )?(?:lives?|living|resides?|residing|based) in {_VALUE}{_WHEN}", is_place),
    _form(
        "residence",
        rf"(?:moved|relocated|moved back) (?:from [^,]{{1,40}}? )?to {_VALUE}{_WHEN}",
        is_place,
        is_change=True,
    ),
    _form(
        "employer",
        rf"(?:works?|(?:{_BE} )?working|(?:{_BE} )?employed) (?:at|for|by) {_VALUE}{_WHEN}",
        is_employer,
    ),
    _form(
        "employer",
        rf"(?:joined|started (?:working )?(?:at|for)|got a job at|took a job at) {_VALUE}{_WHEN}",
        is_employer,
        is_change=True,
        needs_key=True,
    ),
    _form("employer", rf"(?:left|quit|resigned from|got fired from) {_VALUE}{_SINCE}", is_employer, is_over=True),
    _form("employer", rf"(?:{_BE} )?retired(?P<value>){_WHEN}", lambda _: True, is_over=True),
    _form("occupation", rf"(?:{_BE} )?(?:works?|working) as an? {_VALUE}", OCCUPATION.fullmatch),
    _form("occupation", rf"{_BE} (?:an? |the )?{_VALUE}", OCCUPATION.fullmatch),
    _form(
        "occupation",
        rf"(?:became (?:an? |the )?|(?:got )?promoted to ){_VALUE}{_WHEN}",
        OCCUPATION.fullmatch,
        is_change=True,
    ),
    _form("age", rf"{_BE} {_NUMBER}(?: years old| years of age)?"),
    _form("age", rf"turned {_NUMBER}{_WHEN}", is_change=True),
    _form("marital", rf"{_BE} (?P<value>{MARITAL})(?: (?:to|from) \w+)?"),
    _form("marital", rf"(?:got|became) (?P<value>{MARITAL})(?: (?:to|from) \w+)?{_WHEN}", is_change=True),
    _form("diet", rf"{_BE} (?:an? )?(?P<value>{DIET})"),
    _form("diet", rf"(?:became|went|turned) (?:an? )?(?P<value>{DIET}){_WHEN}", is_change=True),
    _form("weight", r"weighs? (?P<value>\d+(?:\.\d+)? ?(?:kg|kilos|lbs?|pounds))"),
    _form("height", rf"{_BE} (?P<value>\d+(?:\.\d+)? ?(?:cm|m|feet|ft)) tall"),
    _form("plan", rf"{_BE} on the (?P<value>\w+) (?:plan|tier)"),
    _form(
        "plan",
        rf"(?:upgraded|downgraded|switched|moved|changed) to the (?P<value>\w+) (?:plan|tier){_WHEN}",
        is_change=True,
    ),
    _form("reply language", rf"(?:always )?(?:reply|answer|respond|write)(?: to me)? in (?P<value>{LANGUAGE})"),
    _form("reply tone", r"(?:always )?(?:reply|answer|respond|write)(?: to me)? in an? (?P<value>\w+) tone"),
    _form("name", rf"(?:{_BE} called|{_BE} named) {_VALUE}", is_proper),
    _form("name", rf"(?:changed (?:my|her|his|their) name to|renamed) {_VALUE}", is_proper, is_change=True),
)
_TIMED = re.compile(
    r"(?P<subject>(?:my|our|the|[A-Z]\w*'s) .+?) "
    rf"(?:{_BE}|starts?|begins?|leaves?|departs?|{_BE} due|{_BE} scheduled for) (?P<value>.+)",
    re.IGNORECASE,
)
_RETIMED = re.compile(
    r"(?P<subject>(?:my|our|the|[A-Z]\w*'s) .+?) (?:moved|postponed|rescheduled|pushed(?: back)?|brought forward"
    r"|delayed|changed)(?: from [^,]+?)? (?:to|until) (?P<value>.+)",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"(?:(?P<subject>.+?) )?ha(?:s|ve) {_NUMBER} (?P<what>[a-z]+)", re.IGNORECASE)
_NAMED = re.compile(rf"(?P<whole>.+?)(?: {_BE}|:) (?P<value>.+)", re.IGNORECASE)
_INVERSE = re.compile(rf"(?P<value>.+?) (?:{_BE}|became) (?P<whole>(?:my|\w+'s) favou?rite .+)", re.IGNORECASE)
_PREFERRED = re.compile(r"(?:(?P<subject>.+?) )?prefers? (?P<value>.+?) (?:over|to) (?P<other>.+)", re.IGNORECASE)


def claims_of(text: str) -> Iterator[Claim]:
    """What a sentence in the positive claims, by every form that it has."""
    for form in _FORMS:
        found = form.pattern.fullmatch(text)
        subject = subject_of(found["subject"] or "") if found and form.fits(found["value"]) else None
        if found is None or subject is None:
            continue
        if form.attribute not in _PERSONAL or is_person(found["subject"] or ""):
            yield Claim(
                subject=subject,
                attribute=form.attribute + _unit(found["value"]) * (form.attribute in _MEASURED),
                value=words_folded(found["value"]),
                is_change=form.is_change,
                needs_key=form.needs_key,
                is_over=form.is_over,
            )
    yield from _timed(text)
    yield from _named(text)
    yield from _counted(text)
    if (found := _PREFERRED.fullmatch(text)) and (subject := subject_of(found["subject"] or "")) is not None:
        between = sorted((words_folded(found["value"]), words_folded(found["other"])))
        yield Claim(subject=subject, attribute=f"preferred of {between}", value=words_folded(found["value"]))


def _timed(text: str) -> Iterator[Claim]:
    """The form "the meeting is on Monday"."""
    for pattern, is_change in ((_TIMED, False), (_RETIMED, True)):
        found = pattern.fullmatch(text)
        time = read_time(found["value"]) if found else None
        if found is not None and time is not None:
            subject = words_folded(found["subject"]).removeprefix("the ")
            yield Claim(subject=subject, attribute=f"time: {time[0]}", value=time[1], is_change=is_change)


def _named(text: str) -> Iterator[Claim]:
    """The form "my favourite colour is blue"."""
    for pattern in (_NAMED, _INVERSE):
        found = pattern.fullmatch(text)
        named = attribute_named(found["whole"]) if found else None
        if found is None or named is None:
            continue
        subject, attribute, is_new, fits = named
        value = value_named(found["value"], fits)
        if value is not None:
            yield Claim(
                subject=subject,
                attribute=attribute + _unit(value) * (attribute in _MEASURED),
                value=value,
                is_name=is_proper(found["value"]) if pattern is _NAMED else None,
                is_change=is_new or pattern is _INVERSE,
            )


def _counted(text: str) -> Iterator[Claim]:
    """The form "has two cats"; of what one has in numbers, not of what one has to do."""
    found = _COUNTED.fullmatch(text)
    what = found["what"].lower() if found else ""
    if found is None or not (what in ("children", "kids") or what.removesuffix("s") in MANY):
        return
    subject = subject_of(found["subject"] or "")
    if subject is not None:
        what = "children" if what == "kids" else what
        yield Claim(subject=subject, attribute=f"count of {what}", value=words_folded(found["value"]))


def _unit(value: str) -> str:
    """What a number is of: two numbers in different units may mean the same."""
    unit = re.sub(r"[\d., ]", "", value).lower()
    return f" in {unit}"
