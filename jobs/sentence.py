"""A sentence of a memory, read for whether it states something that holds now: English, by its small words.

What is not read for certain is not read at all: nothing may be built on a guess.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .questions import asks

LONGEST = 200
"""Characters; a longer text is no single statement."""

_TITLES = re.compile(r"\b(Dr|Mr|Mrs|Ms|St|Prof)\.(?= )")
_SEVERAL = re.compile(r"[.!?;]\s|\n|[.!?;:][\"')]|\u2026|\.\.")
_FOLDED = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})
_CONTRACTIONS = (
    (re.compile(r"\b(?:can't|cannot|can not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"(?<=\w)'m\b", re.IGNORECASE), " am"),
    (re.compile(r"(?<=\w)'re\b", re.IGNORECASE), " are"),
    (re.compile(r"(?<=\w)'ve\b", re.IGNORECASE), " have"),
    (re.compile(r"(?<=\w)'ll\b", re.IGNORECASE), " will"),
    (re.compile(r"(?<=\w)'d\b", re.IGNORECASE), " would"),
    (re.compile(r"\b(it|that|he|she|there|here)'s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(\w+)'s (?=(?:not|now|no longer|also|been)\b)", re.IGNORECASE), r"\1 is "),
)
_LEAD = re.compile(
    r"(?:(?P<change>actually|correction|corrected|updated?|in fact|no(?! longer)|sorry|from now on|as of now|now"
    r"|currently)"
    r"|note(?: that)?|fyi|btw|by the way|well|so|ok|okay|remember(?: that)?|please|and|i mean)\b\s*[,:]?\s+",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r",? (?:(?P<change>now|right now|at the moment|currently|these days|nowadays|from now on|as of now|at present)"
    r"|(?P<ended>any ?more|any longer))$",
    re.IGNORECASE,
)
_CHANGED_AMID = re.compile(r"\b(?:now|currently|recently|just|finally|already|officially|actually)\b ?")
_PERFECT = (
    # What was said as perfect or passive and holds since.
    (re.compile(r"\b(?:has|have) (lived|worked|been)\b(?= .*\bsince\b)", re.IGNORECASE), r"\1 until now"),
    (re.compile(r"\blived until now\b"), "lives"),
    (re.compile(r"\bworked until now\b"), "works"),
    (re.compile(r"\bbeen until now\b"), "is"),
    (
        re.compile(
            r"\b(?:has|have) (?=(?:moved|relocated|become|switched|joined|left|quit|stopped|changed|turned|started"
            r"|migrated|transferred|retired|gone|given|got|gotten)\b)",
            re.IGNORECASE,
        ),
        "",
    ),
    (
        re.compile(
            r"\b(?:was|were|is|has been|have been|got) (?=(?:moved|postponed|rescheduled|promoted|changed|pushed"
            r"|delayed|brought)\b)",
            re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(r"\bbecome\b"), "became"),
    (re.compile(r"\bgiven up\b"), "gave up"),
)
_UNSURE = re.compile(
    r"\b(?:if|unless|until|whether|maybe|perhaps|probably|possibly|might|could|should|thinks?|thought|believes?|says?"
    r"|said|told|heard|hears|guess|seems?|apparently|supposedly|used to|formerly|previously|once|was|were|had|did|been"
    r"|before|ago|also|too|as well|another|besides|additionally|second|sometimes|often|usually|occasionally|mostly"
    r"|temporarily|for now|one of|some of|part of|and|or|but|because|although|though|while|when|where|which|who|whose"
    r"|that|true|false|only|except|nearly|almost|pretends?|dreams?|ignore)\b",
    re.IGNORECASE,
)
_DISLIKED = re.compile(r"\b(?:hates?|dislikes?|detests?|loathes?|can not stand)\b", re.IGNORECASE)
_LIKED = re.compile(r"\b(?:loves?|enjoys?|adores?|likes?)\b", re.IGNORECASE)
_ENDED_DOING = re.compile(r"\b(?:stopped|quit|gave up) (?=\w+ing\b)", re.IGNORECASE)
_NEGATIONS = (
    (re.compile(r"\bno longer\b ?|^not ", re.IGNORECASE), ""),
    (re.compile(r"\b(?:do|does) not ", re.IGNORECASE), ""),
    (re.compile(r"\b(am|is|are) not\b", re.IGNORECASE), r"\1"),
    (re.compile(r"\b(has|have) no (?!longer)", re.IGNORECASE), r"\1 a "),
)
_STILL_NEGATED = re.compile(r"\b(?:not|never|no|none|nobody|nothing|without|neither|nor|hardly)\b", re.IGNORECASE)
_WRONG = re.compile(
    r"^(?P<right>.+?),? (?:not|instead of|rather than) (?P<wrong>[^,]{1,60})$"
    r"|^(?P<before>.+?) not (?P<wrong_first>[^,]{1,40}),? but (?P<right_last>[^,]{1,40})$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What one sentence states."""

    text: str
    """In the positive: without its negation, its contractions and the words that say since when."""
    holds: bool
    """False: it denies the text, or says that it has ended."""
    is_change: bool
    """It says that it is new, or that it corrects something."""
    not_so: str | None = None
    """What it says is wrong or over instead: Monday, in "Tuesday, not Monday"."""


def folded(text: str) -> str:
    """A text for comparison with others: without case, final punctuation and more than one blank in a row."""
    words = " ".join(unicodedata.normalize("NFKC", text).translate(_FOLDED).casefold().split())
    return words.strip(" .!,;:\"'。！、")


def read_sentence(text: str) -> Sentence | None:
    """Read a text that is one sentence and states something for certain; None if it is anything else."""
    plain = _TITLES.sub(r"\1", " ".join(unicodedata.normalize("NFKC", text).translate(_FOLDED).split()))
    plain = plain.strip(' "').rstrip(".!")
    if not plain or len(plain) > LONGEST or _SEVERAL.search(plain) or asks(plain):
        return None
    for pattern, expanded in _CONTRACTIONS:
        plain = pattern.sub(expanded, plain)
    plain, is_change = _without_leads(plain)
    plain, not_so = _without_correction(plain)
    plain, is_new, has_ended = _without_tails(plain)
    for pattern, holding in _PERFECT:
        plain = pattern.sub(holding, plain)
    plain, changes = _CHANGED_AMID.subn("", plain)
    positive = _positive(plain, has_ended)
    if positive is None:
        return None
    plain, holds = positive[0].strip(" ,"), positive[1]
    if not plain or _UNSURE.search(plain):
        return None
    return Sentence(
        text=plain,
        holds=holds,
        is_change=is_change or is_new or changes > 0 or not_so is not None,
        not_so=not_so,
    )


def _without_leads(text: str) -> tuple[str, bool]:
    is_change = False
    while (found := _LEAD.match(text)) and found.end() < len(text):
        is_change = is_change or found["change"] is not None
        text = text[found.end() :]
    return text, is_change


def _without_tails(text: str) -> tuple[str, bool, bool]:
    is_change = has_ended = False
    while found := _TAIL.search(text):
        is_change = is_change or found["change"] is not None
        has_ended = has_ended or found["ended"] is not None
        text = text[: found.start()]
    return text, is_change, has_ended


def _without_correction(text: str) -> tuple[str, str | None]:
    found = _WRONG.match(text)
    if found is None:
        return text, None
    if found["right"] is not None:
        # "is not Monday" denies; it corrects nothing.
        if re.search(r"\b(?:am|is|are|do|does|did|can|will|would|has|have|was|were)$", found["right"], re.IGNORECASE):
            return text, None
        return found["right"], found["wrong"].strip()
    return f"{found['before']} {found['right_last']}", found["wrong_first"].strip()


def _positive(text: str, has_ended: bool) -> tuple[str, bool] | None:
    """The text without its negation, and whether it holds; None if it is not clear what is denied."""
    negations = 0
    for pattern, positive in _NEGATIONS:
        text, found = pattern.subn(positive, text)
        negations += found
    text, ended = _ENDED_DOING.subn("", text)
    text, disliked = _DISLIKED.subn("like", text)
    text = _LIKED.sub("like", text)
    if negations + ended + disliked > 1 or _STILL_NEGATED.search(text):
        return None
    if has_ended and not negations:
        return None
    return " ".join(text.split()), negations + ended + disliked == 0
