"""Whether one memory replaces another, by rules that would rather miss a replacement than make one up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .claim_attributes import is_description
from .claim_keys import KeyWords, read_key
from .claim_subjects import PRONOUNS, SPEAKER, subject_of
from .claim_times import read_time
from .claim_words import COUNTRIES, NUMEROUS, is_proper
from .claims import Claim, claims_of
from .memory_questions import ShownMemory
from .sentence import Sentence, folded, read_sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a later memory does to an earlier one."""

    replaces: bool = False
    contradicts: bool = False


NOTHING = Replacement()
_SAME_ONCE_MORE = Replacement(replaces=True)
_OTHERWISE = Replacement(replaces=True, contradicts=True)

_BOTH_HOLD = [{"single", status} for status in ("divorced", "widowed", "separated")]
_BARE_WORDS = 4
_NOT_BARE = re.compile(r"\b(?:am|is|are|has|have|my|i|the|in|at|on|likes?|wants?|prefers?)\b|\w's\b", re.IGNORECASE)
_OF_MANY = re.compile(rf"(?:my|our|\w+'s) (?:\w+ )?(?:{'|'.join(sorted(NUMEROUS))})s?\b(?! [A-Z])")
_SUBJECT = re.compile(r"^(?:i|the user|user) (?=\w)", re.IGNORECASE)
_ELLIPTIC = re.compile(
    r"(?:lives?|living|based|moved|relocated|resides?|works?|working|employed|joined|likes?|prefers?|has|have|is|plays?"
    r"|speaks?|drinks?|eats?|uses?|drives?|wants?|plans?|owns?|allergic|switched|changed|became|smokes?|studies|takes?"
    r"|turned|got|reads?|goes|runs?|enjoys?|weighs?|left|quit|retired|needs?"
    r"|knows?|wears?|learning|collects?|keeps?)\b",
    re.IGNORECASE,
)
_FROM_TO = re.compile(
    r"(?:(?P<subject>.+?) )?(?:switched|changed|migrated|moved|went|transferred|converted) from (?:an? |the )?"
    r"(?P<former>.+?) to (?:an? |the )?\S+(?: \S+){0,2}",
    re.IGNORECASE,
)
_HAS_OBJECT = re.compile(
    r"(?:(?P<subject>.+?) )?(?:uses?|drives?|prefers?|drinks?|stud(?:y|ies)|works? (?:at|for)|plays?|eats?|runs?|wears?"
    r"|takes?|reads?|attends?)(?: an?| the)? (?P<object>\S+(?: \S+){0,2})",
    re.IGNORECASE,
)
_ONE_AT_A_TIME = re.compile(
    r"(?:(?P<subject>.+?) )?(?:drives?|runs?|stud(?:y|ies)|attends?|goes to|go to)(?: an?)? (?P<value>\S+(?: \S+)?)",
    re.IGNORECASE,
)
_PREFERS = re.compile(r"(?:(?P<subject>.+?) )?prefers? (?P<value>\S+(?: \S+){0,2})", re.IGNORECASE)
_REGULARLY = re.compile(r"(?:every|each) \w+|daily|regularly|lot")
_ARTICLES = frozenset({"a", "an", "the", "any"})
_IRREGULAR = {"has": "have", "does": "do", "goes": "go", "is": "be", "am": "be", "are": "be"}


@dataclass(frozen=True, slots=True)
class _Read:
    """A memory as the rules see it."""

    sentence: Sentence
    key: KeyWords
    claims: tuple[Claim, ...]
    words: tuple[str, ...]
    """Without articles and endings; without the subject where that is the speaker."""
    is_elliptic: bool
    """It names no subject."""


def replacement(earlier: ShownMemory, later: ShownMemory) -> Replacement:
    """What a memory does to one that was said before it."""
    if earlier.is_whole and later.is_whole and folded(earlier.text) == folded(later.text) != "":
        return _SAME_ONCE_MORE
    old, new = _read(earlier), _read(later)
    if old is None or new is None or not _may_share_a_subject(old, new):
        return NOTHING
    if old.words == new.words:
        is_denied = old.sentence.holds != new.sentence.holds and not _is_of_many(new.sentence.text)
        return _OTHERWISE if is_denied else NOTHING
    if _denies_a_habit(old, new):
        return _OTHERWISE
    if not old.sentence.holds:
        return NOTHING
    if _corrects(old, new) or _changes_over(old, new):
        return _OTHERWISE
    if any(_claims_otherwise(one, other, old, new) for one in old.claims for other in new.claims):
        return _OTHERWISE
    return NOTHING


def _read(memory: ShownMemory) -> _Read | None:
    return _read_text(memory.text, memory.key) if memory.is_whole else None


@lru_cache(maxsize=1024)
def _read_text(text: str, key_text: str) -> _Read | None:
    sentence = read_sentence(text)
    if sentence is None:
        return None
    key = read_key(key_text)
    claims = tuple(claims_of(sentence.text))
    is_elliptic = _ELLIPTIC.match(sentence.text) is not None
    if key.attribute is not None and not claims and not is_elliptic and _is_bare(sentence):
        claims = (Claim(subject=SPEAKER, attribute=key.attribute, value=folded(sentence.text)),)
        is_elliptic = True
    return _Read(sentence, key, claims, _words(sentence.text), is_elliptic)


def _is_bare(sentence: Sentence) -> bool:
    """Is it only a value, and no sentence about something?"""
    text = sentence.text
    is_short = len(text.split()) <= _BARE_WORDS
    return sentence.holds and is_short and not _NOT_BARE.search(text) and not is_description(text)


def _may_share_a_subject(old: _Read, new: _Read) -> bool:
    """Where a text leaves its subject to the key, the keys must not name different ones."""
    if not old.is_elliptic and not new.is_elliptic:
        return True
    if old.key.attribute is not None and old.key.attribute == new.key.attribute:
        return True
    said = {_lemma(word) for word in (*old.sentence.text.lower().split(), *new.sentence.text.lower().split())}
    others = [
        {word for word in one.key.words if _lemma(word) not in said and read_key(word).attribute is None}
        for one in (old, new)
    ]
    return others[0] == others[1]


def _is_of_many(text: str) -> bool:
    """Is it about somebody whom only the text before could tell from others?"""
    return text.split(maxsplit=1)[0].lower() in PRONOUNS or _OF_MANY.match(text[0].lower() + text[1:]) is not None


def _words(text: str) -> tuple[str, ...]:
    plain = _SUBJECT.sub("", text.lower())
    return tuple(_lemma(word) for word in plain.replace(",", "").split() if word not in _ARTICLES)


def _lemma(word: str) -> str:
    """A word without the endings of the third person, of the plural, and of "-ing"."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.endswith("ing") and re.search("[aeiouy]", word[:-3]):
        word = word[:-3]
        if word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]
    elif len(word) > 3 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _denies_a_habit(old: _Read, new: _Read) -> bool:
    """Does the new one deny as a whole what the old one says of every morning?"""
    begin, rest = old.words[: len(new.words)], " ".join(old.words[len(new.words) :])
    is_denied = old.sentence.holds and not new.sentence.holds and begin == new.words
    return is_denied and len(begin) > 1 and _REGULARLY.fullmatch(rest) is not None


def _corrects(old: _Read, new: _Read) -> bool:
    """Does the new one name what the old one says, and say that it is not so?"""
    wrong = new.sentence.not_so
    if wrong is None or not new.sentence.holds:
        return False
    bad = _words(wrong)
    if _with_other_end(new.words, bad, old.words):
        return True
    it = re.fullmatch(r"(?:it|that) (?:is|was) (?P<right>.+)", new.sentence.text, re.IGNORECASE)
    return (
        it is not None
        and not old.key.words.isdisjoint(new.key.words)
        and old.words[-len(bad) :] == bad
        and _is_alike(it["right"], wrong)
    )


def _with_other_end(right: tuple[str, ...], bad: tuple[str, ...], old: tuple[str, ...]) -> bool:
    """Are two texts the same but for how they end, one of them in what is said to be wrong?"""
    if len(old) <= len(bad) or old[-len(bad) :] != bad:
        return False
    beginning = old[: -len(bad)]
    return len(beginning) >= 1 and right[: len(beginning)] == beginning and 0 < len(right) - len(beginning) <= 4


def _is_alike(one: str, other: str) -> bool:
    times = read_time(one), read_time(other)
    if times[0] is None or times[1] is None:
        return times == (None, None) and is_proper(one) and is_proper(other)
    return times[0][0] == times[1][0]


def _changes_over(old: _Read, new: _Read) -> bool:
    """Does the new one name what the old one has, as what was left behind?"""
    text = new.sentence.text
    had = _HAS_OBJECT.fullmatch(old.sentence.text)
    if new.sentence.holds and had is not None and (left := _FROM_TO.fullmatch(text)) is not None:
        return _is_same_subject(had, left) and _words(had["object"]) == _words(left["former"])
    if not new.sentence.holds or old.key.words != new.key.words or old.key.words <= {"preference"}:
        return False
    for form in (_ONE_AT_A_TIME, _PREFERS):
        one, other = form.fullmatch(old.sentence.text), form.fullmatch(text)
        if one is not None and other is not None and _is_same_subject(one, other):
            return _differs(folded(one["value"]), folded(other["value"]))
    return False


def _is_same_subject(one: re.Match[str], other: re.Match[str]) -> bool:
    subject = subject_of(one["subject"] or "")
    return subject is not None and subject == subject_of(other["subject"] or "")


def _claims_otherwise(one: Claim, other: Claim, old: _Read, new: _Read) -> bool:
    """Does the new claim give the same attribute of the same subject another value, or end it?"""
    if (one.subject, one.attribute) != (other.subject, other.attribute) or one.is_over or other.is_of_many:
        return False
    if any(claim.needs_key and not read.key.names(claim.attribute) for claim, read in ((one, old), (other, new))):
        return False
    if other.is_over:
        return new.sentence.holds and other.value in ("", one.value)
    if not new.sentence.holds:
        return one.value == other.value
    is_change = other.is_change or new.sentence.is_change
    if one.may_be_several and not is_change:
        return False
    if None not in (one.is_name, other.is_name) and one.is_name != other.is_name:
        return False
    if one.attribute == "residence" and not _are_places_alike(one, other, old, new, is_change):
        return False
    return _differs(one.value, other.value) and {one.value, other.value} not in _BOTH_HOLD


def _are_places_alike(one: Claim, other: Claim, old: _Read, new: _Read, is_change: bool) -> bool:
    """Are both cities, or both countries, so that one cannot lie in the other?"""
    if (one.value in COUNTRIES) != (other.value in COUNTRIES):
        return False
    return is_change or (old.key.attribute == "country") == (new.key.attribute == "country")


def _differs(one: str, other: str) -> bool:
    """Are two values different, and neither a part of the other, as Alfama, Lisbon is of Lisbon?"""
    mine, yours = set(re.findall(r"[\w@.'+-]+", one)), set(re.findall(r"[\w@.'+-]+", other))
    return not (mine <= yours or yours <= mine)
