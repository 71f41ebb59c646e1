"""Texts as the keyword index takes them: folded words, and pieces of words where a script bends or joins them.

English is stemmed by the index. Words of other scripts change by ending, prefix or particle (`김치를`, `Москве`),
or are not set apart by spaces; they are found by their pieces as well: pairs of characters or threes of letters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_QUERY_CHARS = 10_000
"""What of a query is read at all."""
MAX_QUERY_WORDS = 128
"""Different words of a query that are looked for, the first ones."""
LEAST_SHARE = 0.5
"""Of the pieces of some word of the query, that a text found by pieces alone must have."""

_STOP_WORDS = """
a about after again all am an and any are as at be because been before being between both but by can could did do does
doing during each for from further had has have having he her here hers herself him himself his how i if in into is it
its itself just me more most my myself no nor not of off on once only or other our ours ourselves out over own same
she should so some such than that the their theirs them themselves then there these they this those through to too
under until up very was we were what when where which while who whom why will with would you your yours yourself
yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that are neither indexed nor looked for. Lance's own list is that of all its languages together: it
takes out `dog`, `cat`, `son`, `care`, `city` and `war`, which mean nothing in some other; one's own it compares with
stems, so that `very` would have to be given as `veri`."""
_NEGATED = "ain aren couldn didn doesn don hadn hasn haven isn shouldn wasn weren won wouldn"
_CONTRACTED = STOP_WORDS.union(_NEGATED.split())

# Thai, Lao, Myanmar, Khmer; Hiragana, Katakana, Han, Hangul.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_LATIN = "0-9A-Za-z\u00aa-\u024f\u1e00-\u1eff"
# The vowels of Indian scripts, which regular expressions do not count to a word.
_MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff"
_BENT_WORD = re.compile(rf"([{_DENSE}]+)|((?:(?![{_DENSE}{_LATIN}])(?:[^\W\d_]|[{_MARKS}]))+)")
_RUN = re.compile(r"[\w./:@\\-]+")
_PART = re.compile(r"[A-Z]?[^\WA-Z_]+|[A-Z]+(?![a-z])")
_BETWEEN_BLANKS = re.compile(r"\S+")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_LEAST_PART = 2
_LONGEST_JOINED = 200
"""A longer run of characters is a blob of data, not words that someone joined."""
_PREFIXING = re.compile("[\u0590-\u08ff]")
"""Hebrew and Arabic put articles and prepositions before a word, in one with it; the others change its end."""


def _foldings() -> dict[int, str | None]:
    """Letters of Latin, Greek and Cyrillic without their accents; Hebrew's and Arabic's points gone."""
    letters = (*range(0xC0, 0x530), *range(0x1E00, 0x2000))
    table: dict[int, str | None] = {}
    for letter in letters:
        base = unicodedata.normalize("NFD", chr(letter))[0]
        if base != chr(letter):
            table[letter] = base
    table |= {
        ord(one): plain for one, plain in zip("øłđıðþæœ", ("o", "l", "d", "i", "d", "th", "ae", "oe"), strict=True)
    }
    table |= dict.fromkeys((*range(0x300, 0x370), *range(0x591, 0x5C8), *range(0x64B, 0x660), 0x670))
    return table


_FOLDINGS = _foldings()


def folded(text: str) -> str:
    """The text in small letters without accents, one form for what looks alike."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().translate(_FOLDINGS)


def words_of(text: str) -> str:
    """What the index of words gets: the folded text without stop words, and after it the parts of joined words.

    `perdure.toml` and `HttpServer` are one word each to the index; so they are found by their parts, too.
    """
    parts: list[str] = []
    for run in _RUN.findall(text):
        if len(run) <= _LONGEST_JOINED and len(found := _PART.findall(run)) > 1:
            parts += (part for part in found if len(part) >= _LEAST_PART and not part.isdigit())
    return _WORD.sub(_unless_stop_word, folded(" ".join([text, *parts])))


def _unless_stop_word(found: re.Match[str]) -> str:
    word = found[0]
    if word in STOP_WORDS:
        return ""
    begin, apostrophe, _ = word.replace("\u2019", "'").partition("'")
    return "" if apostrophe and begin in _CONTRACTED else word


def query_words(text: str) -> str:
    """A query in the form of `words_of`, without repetitions and of bounded length."""
    words = dict.fromkeys(_BETWEEN_BLANKS.findall(words_of(text[:MAX_QUERY_CHARS])))
    return " ".join(list(words)[:MAX_QUERY_WORDS])


def forms_of(text: str) -> str:
    """What the index of pieces gets: every piece of every word that has some, once, with single characters."""
    if text.isascii():
        return ""
    pieces: dict[str, None] = {}
    for word, is_dense in _bent_words(folded(text)):
        pieces.update(dict.fromkeys(_pieces(word, is_dense)))
        if is_dense:
            pieces.update(dict.fromkeys(word))
    return " ".join(pieces)


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query as pieces."""

    pieces: frozenset[str]
    beginning: str | None
    """A piece that must be there: two words that only end alike are not one word in two forms."""


def query_forms(text: str) -> list[QueryWord]:
    """The words of a query that have pieces."""
    if text.isascii():
        return []
    words = dict.fromkeys(_bent_words(folded(text[:MAX_QUERY_CHARS])))
    return [_query_word(word, is_dense) for word, is_dense in list(words)[:MAX_QUERY_WORDS]]


def _query_word(word: str, is_dense: bool) -> QueryWord:
    pieces = _pieces(word, is_dense)
    return QueryWord(frozenset(pieces), None if is_dense or _PREFIXING.match(word) else pieces[0])


def has_enough_of(forms: str, query: Iterable[QueryWord]) -> bool:
    """Has a text's `forms_of` enough of some word of the query?"""
    there = set(forms.split(" "))
    return any(
        (word.beginning is None or word.beginning in there)
        and len(word.pieces & there) >= math.ceil(len(word.pieces) * LEAST_SHARE)
        for word in query
    )


def _bent_words(text: str) -> Iterator[tuple[str, bool]]:
    for dense, word in _BENT_WORD.findall(text):
        yield (dense, True) if dense else (word, False)


def _pieces(word: str, is_dense: bool) -> list[str]:
    length = 2 if is_dense else 3
    return [word[begin : begin + length] for begin in range(max(1, len(word) - length + 1))]
