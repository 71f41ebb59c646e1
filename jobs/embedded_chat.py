"""The embedded chat model: finds what was said about a question, and quotes it."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .chat_model import ChatMessage, ChatReply, ChatRequest
from .lexical import LIGHT, alike, is_of_person, pairs_of, stem, terms_of, weight_of
from .openai_form import estimated_usage
from .questions import DENSE_ASKING_WORDS, asked_in, kind_asked_for
from .quotable import Passage, statements, tool_results
from .request_parts import input_place, spoken

NOTED = "Noted. Ask me about it, and I will quote what you said."
NOTHING_FOUND = "I know nothing about that: nothing in the messages that I see here matches the question."
NOT_SURE = "I am not sure that this answers it."
GREETING = "I am the embedded model: I find what was said in this conversation and quote it. Tell me something, or ask."

_MOST_QUOTED = 3
_LEAST_COVERED = 0.3  # of the question, by the weight of its terms, for a passage to matter
_SURELY_COVERED = 0.6
_LEAST_RELATIVE_SCORE = 0.5
_ALIKE_ENOUGH = 0.3  # share of terms in common, for one passage to update another

# What a match counts, by how it was made.
_SAID, _ANSWERED, _ALIKE = 1.0, 0.8, 0.6
_PAIR_BONUS = 0.5
_LIKELY = 30  # so many hits are looked at for neighbouring words
_SATURATION, _LENGTH_SHARE = 1.2, 0.4  # k1 and b of BM25; b is lower than usual, since chat messages are short

_GREETINGS = frozenset(
    map(stem, ("hello", "hi", "hey", "thanks", "good", "morning", "evening", "day", "bye", "welcome"))
)
_NAME = stem("name")
_INTRODUCES = re.compile(r"\b(?:I am|I['’]?m|[Tt]his is) [^\W\d_a-z]\w+\b(?! \w+ing)")
_UPDATES = re.compile(
    r"\b(?:now|no longer|any ?more|actually|instead|changed|moved|switched|correction|from now on|these days"
    r"|nowadays|used to)\b|现在|現在|今は|其实|其實|改成|搬到|이제|지금",
    re.IGNORECASE,
)


class EmbeddedChat:
    """Answers by quoting what the user said, from the messages of the request alone. A `ChatModel`.

    It is a finder of words, no language model: it matches a question's words with those of the user's earlier
    statements, quotes the best of them with their place, and says so when there is none. Working notes, the
    ongoing task and summaries are sources too, named as such; results of tools only where nothing else matters.
    Its own earlier answers and anybody's questions are none.

    It never calls tools: to choose one and fill its arguments takes an understanding that it does not have, and
    a guess would act on the world. It needs no key, no file and no network, and the same request gets the same
    answer. Threads may share one instance.
    """

    def complete(self, request: ChatRequest) -> ChatReply:
        """The quotations that matter, or that there are none."""
        text = _answer(request.messages)
        return ChatReply(text=text, usage=estimated_usage(request, text))

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The same, word by word."""
        reply = self.complete(request)
        yield from re.findall(r"\S+\s*", reply.text)
        yield reply


@dataclass(frozen=True, slots=True)
class _Question:
    """What is looked for."""

    weights: dict[str, float]
    """By term."""
    alike: dict[str, frozenset[str]]
    """By term: those of like meaning."""
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str) -> _Question:
        asked = DENSE_ASKING_WORDS.sub(" ", text)
        kind = stem(kind_asked_for(text).casefold())
        weights = {term: LIGHT if term == kind else weight_of(term) for term in sorted(terms_of(asked))}
        if not weights and re.search(r"\bwho am i\b", text, re.IGNORECASE):
            weights = {_NAME: 1.0}
        return cls(weights, {term: alike(term) for term in weights}, pairs_of(asked))

    @property
    def is_about_listener(self) -> bool:
        """It asks for what is the model's, as "what is your name?"."""
        return any(before == "listener" for before, _ in self.pairs)

    def is_of_another(self, pairs: frozenset[tuple[str, str]]) -> bool:
        """Does a passage with these neighbours speak of yours where this asks for mine, or the other way round?"""
        if self.is_about_listener:
            return not any(before == "listener" for before, _ in pairs)
        return any(
            before == "speaker" and ("listener", term) in pairs and ("speaker", term) not in pairs
            for before, term in self.pairs
        )

    def covered(self, terms: Iterable[str]) -> float:
        """The share of the question, by weight, that these terms are."""
        return sum(self.weights[term] for term in terms) / (sum(self.weights.values()) or 1.0)

    def matches(self, passage: Passage) -> dict[str, float]:
        """Which of its terms a passage speaks of, and what each match counts."""
        found: dict[str, float] = {}
        for term in self.weights:
            if term in passage.terms:
                found[term] = _SAID
            elif term in passage.answers:
                found[term] = _ANSWERED
            elif self._is_spoken_of_otherwise(term, passage):
                found[term] = _ALIKE
        return found

    def _is_spoken_of_otherwise(self, term: str, passage: Passage) -> bool:
        if self.alike[term] and not passage.terms.isdisjoint(self.alike[term]):
            return True
        return term == _NAME and _INTRODUCES.search(passage.text) is not None


@dataclass(frozen=True, slots=True)
class _Hit:
    """A passage that matters to a question."""

    passage: Passage
    score: float
    found: frozenset[str]
    """The question's terms that it speaks of."""
    pairs: frozenset[tuple[str, str]] = frozenset()
    """The question's neighbouring words that stand so in it."""

    @property
    def subject(self) -> frozenset[str]:
        """The same without pronouns, if there is more."""
        return frozenset(term for term in self.found if not is_of_person(term)) or self.found

    @property
    def is_verbatim(self) -> bool:
        """It has the question's own words, and they are words, not pairs of characters."""
        return any(term.isascii() and term in self.passage.terms for term in self.found)


def _answer(messages: Sequence[ChatMessage]) -> str:
    place = input_place(messages)
    if place is None:
        return GREETING
    text = spoken(messages[place]).text
    asked = asked_in(text)
    if not any(map(str.isalnum, text)):
        return GREETING
    if not asked:
        return NOTED if terms_of(text) - _GREETINGS else GREETING
    question = _Question.of(asked)
    others = [*messages[:place], *messages[place + 1 :]]
    if hits := _hits(question, list(statements(others, text))):
        return _quoted(hits, question)
    if question.weights and (hits := _hits(question, list(tool_results(others)))):
        return _quoted(hits[:1], question)
    return NOTHING_FOUND


def _hits(question: _Question, passages: Sequence[Passage]) -> list[_Hit]:
    """The passages that matter, one of a message, best first; of equal ones the newest first.

    A question without any word to look for, such as "what do you know about me?", gets the newest.
    """
    if not question.weights:
        return [_Hit(passage, 0.0, frozenset()) for passage in reversed(passages[-_MOST_QUOTED:])]
    matching = [(passage, found) for passage in passages if (found := question.matches(passage))]
    containing = Counter(term for _, found in matching for term in found)
    worth = {
        term: weight * math.log(1 + (len(passages) - containing[term] + 0.5) / (containing[term] + 0.5))
        for term, weight in question.weights.items()
    }
    usual_length = sum(len(passage.terms) for passage in passages) / (len(passages) or 1) or 1.0
    hits = []
    for passage, found in matching:
        if question.covered(found) >= _LEAST_COVERED:
            length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(passage.terms) / usual_length
            score = sum(worth[term] * counted for term, counted in found.items())
            score *= (_SATURATION + 1) / (1 + _SATURATION * length)
            hits.append(_Hit(passage, score, frozenset(found)))
    return _by_pairs(hits, question, worth)


def _by_pairs(hits: Sequence[_Hit], question: _Question, worth: Mapping[str, float]) -> list[_Hit]:
    """The best hits again, one of a message, ranked by neighbouring words as well."""
    best: dict[int, _Hit] = {}
    likely = hits if question.is_about_listener else heapq.nlargest(_LIKELY, hits, key=_rank)
    for hit in likely:
        pairs = pairs_of(hit.passage.text)
        if question.is_of_another(pairs):
            continue
        common = question.pairs & pairs
        bonus = _PAIR_BONUS * sum(worth[term] for _, term in common)
        ranked = replace(hit, score=hit.score + bonus, pairs=common)
        best[hit.passage.place] = max(ranked, best.get(hit.passage.place, ranked), key=_rank)
    return sorted(best.values(), key=_rank, reverse=True)


def _rank(hit: _Hit) -> tuple[float, int]:
    return hit.score, hit.passage.place


def _quoted(hits: Sequence[_Hit], question: _Question) -> str:
    """The best passages with their places; of those that say the same thing the latest first."""
    best = hits[0]
    same = [hit for hit in hits if hit is best or _says_the_same(hit, best)]
    same.sort(key=lambda hit: -hit.passage.place)
    others = [hit for hit in hits if hit not in same and hit.score >= best.score * _LEAST_RELATIVE_SCORE]
    shown = [*same, *others][:_MOST_QUOTED]
    lines = []
    if question.weights and question.covered({term for hit in shown for term in hit.found}) < _SURELY_COVERED:
        lines.append(NOT_SURE)
    for number, hit in enumerate(shown):
        introduction = hit.passage.introduction
        if number or len(same) > 1:
            lead = "Also" if number >= len(same) else "Earlier" if number else "Latest"
            introduction = f"{lead}, {introduction[0].lower()}{introduction[1:]}"
        lines.append(f'{introduction}: "{hit.passage.text}"')
    return "\n".join(lines)


def _says_the_same(one: _Hit, other: _Hit) -> bool:
    """Do they speak of the same thing, so that the later one counts?"""
    if not one.subject or one.subject != other.subject:
        return False
    later = max(one, other, key=lambda hit: hit.passage.place)
    has_same_words_before = one.pairs == other.pairs or not later.is_verbatim  # not "my name" and "my cat's name"
    if _UPDATES.search(later.passage.text):
        return has_same_words_before
    mine, yours = one.passage.terms, other.passage.terms
    return one.pairs == other.pairs and len(mine & yours) >= _ALIKE_ENOUGH * len(mine | yours)
