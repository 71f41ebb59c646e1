"""Words and their stems, of any script: what a text is about."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

LIGHT = 0.5
"""The weight of a term that says little by its form."""

# Scripts written without spaces, or with endings tied to their words: pairs of characters stand for words. Thai,
# Lao, Myanmar, Khmer; Hiragana, Katakana, Han, Hangul.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Accents, points and the vowels of Indian scripts, which regular expressions do not count to a word.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(rf"([{_DENSE}]+)|((?:(?![{_DENSE}])(?:[^\W_]|[{_MARKS}]))+)")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_LITTLE = re.compile(r"[\u3041-\u309f]{1,2}|[a-z]{1,2}")

_STOP_WORDS = """
a about after again ain all also am an and any anything are aren as at be because been before being but by can could
couldn d did didn do does doesn doing don down each ever everything few for from had hadn has hasn have haven having
he her here hers herself him himself his how if in into is isn it its itself just kind know ll made make may me
mention might more most must my myself no nor not nothing now of off on once only or other our ours out over own please
re really recall remember remind s said same say shall she should so some something sort such t tell than that the
their theirs them then there these they thing things this those through to told too under until up us ve very was
wasn we were weren what when where which while who whom whose why will with won would wouldn yes you yourself
yourselves
"""
_STOP = frozenset(_STOP_WORDS.split())
_PERSONS = {
    **dict.fromkeys(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "m"], "speaker"),
    **dict.fromkeys(["your", "yours"], "listener"),
    **dict.fromkeys("我咱私僕俺", "speaker"),
    **dict.fromkeys("你您", "listener"),
}
_NO_TERMS = frozenset(["", *_PERSONS])
_IRREGULAR = {
    form: stem
    for stem, forms in (
        ("go", "goes went gone"),
        ("buy", "bought"),
        ("see", "saw seen"),
        ("eat", "ate eaten"),
        ("give", "gave given"),
        ("get", "got gotten getting"),
        ("take", "took taken"),
        ("come", "came"),
        ("meet", "met"),
        ("find", "found"),
        ("think", "thought"),
        ("write", "wrote written"),
        ("teach", "taught"),
        ("run", "ran"),
        ("win", "won"),
        ("lose", "lost"),
        ("leave", "left"),
        ("feel", "felt"),
        ("begin", "began begun"),
        ("keep", "kept"),
        ("grow", "grew grown"),
        ("drive", "drove driven"),
        ("speak", "spoke spoken"),
        ("choose", "chose chosen"),
        ("bring", "brought"),
        ("build", "built"),
        ("sell", "sold"),
        ("send", "sent"),
        ("spend", "spent"),
        ("wear", "wore worn"),
        ("break", "broke broken"),
        ("child", "children kid kids"),
        ("person", "people"),
        ("wife", "wives"),
        ("mother", "mom mum mommy"),
        ("father", "dad daddy"),
        ("photo", "photograph photographs picture pictures pic pics"),
    )
    for form in forms.split()
}
_GROUPS = (
    "favorite love like prefer enjoy adore best",
    "name call 名字 名前 이름 我叫",
    "live reside home address move",
    "job work profession occupation employer career",
    "birthday born birth",
    "old age years",
    "start begin",
    "buy purchase",
    "allergy allergic",
    "trip travel journey vacation holiday",
)


def terms_of(text: str) -> frozenset[str]:
    """The terms of a text: stems without stop words, or pairs of characters where a script has no spaces.

    Case, accents, British spelling and light English endings make no difference.
    """
    return frozenset(map(stem, _words(text))) - _NO_TERMS


def pairs_of(text: str) -> frozenset[tuple[str, str]]:
    """Neighbours: a term after the term before it, or after a `speaker` or `listener` for "my" or "your"."""
    pairs: list[tuple[str, str]] = []
    before = ""
    for word in _words(text):
        if (person := _PERSONS.get(word)) is not None:
            before = person
        elif term := stem(word):
            if before:
                pairs.append((before, term))
            before = term
    return frozenset(pairs)


def _words(text: str) -> Iterable[str]:
    return _ASCII_WORD.findall(text.lower()) if text.isascii() else _words_of_any_script(text)


def _words_of_any_script(text: str) -> Iterator[str]:
    for dense, word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word:
            yield _without_accents(word)
            continue
        yield from (character for character in dense if character in _PERSONS)
        if len(dense) == 1:
            yield dense
        yield from map("".join, pairwise(dense))


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """A folded word's stem, or "" for a stop word.

    Light English endings only, -s, -ed and -ing, the latter two as in step 1b of Porter's stemmer (1980): a
    stem need not be a word, equal words need equal stems.
    """
    if word in _STOP:
        return ""
    word = _IRREGULAR.get(word, word)
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith(("ies", "ied")):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not word.endswith("eed") and re.search("[aeiouy]", rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    word = re.sub(r"(?<=[a-z]{2})our(?=ite?$|$)", "or", word)
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


_ALIKE = {stem(word): number for number, group in enumerate(_GROUPS) for word in group.split()}


def alike(term: str) -> frozenset[str]:
    """Terms of like meaning, the term itself not among them: a few everyday ones."""
    group = _ALIKE.get(term)
    return frozenset(other for other, number in _ALIKE.items() if number == group and other != term)


def weight_of(term: str) -> float:
    """What a term says by its form: little, where it is short or made of grammatical letters."""
    return LIGHT if _LITTLE.fullmatch(term) else 1.0


def is_of_person(term: str) -> bool:
    """Does it hold a pronoun, as pairs of characters may?"""
    return not term.isascii() and any(character in _PERSONS for character in term)
