"""What in a request's messages may be quoted: people's statements, notes and summaries, results of tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .chat_model import ChatMessage
from .lexical import terms_of
from .questions import asked_in, asks, sentences_of
from .recalled_view import TAG as MEMORIES
from .recalled_view import remembered_lines
from .request_parts import Spoken, spoken, stored_data

_LONGEST = 400  # characters; of a longer text the passages are quoted
_LONGEST_CACHED = 2000
_AFTER_ALL = 10**9  # a place behind those of all messages
_KEY_SIGNS = re.compile(r"[:._\-/]+")
_PLACES_OF_DATA = {
    "working_notes": "In the working notes",
    "ongoing_task": "In the ongoing task",
    "conversation_summary": "In a summary of earlier messages",
}


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that may be quoted."""

    place: int
    """Of its message in the request."""
    text: str
    """Verbatim."""
    terms: frozenset[str]
    answers: frozenset[str]
    """The terms of the question that somebody else asked just before."""
    message: ChatMessage
    origin: str | None = None
    """Where it comes from, for what no person said here."""

    @property
    def introduction(self) -> str:
        """What the quotation begins with: its place, its time and who said it, as far as they are known."""
        if self.origin is not None:
            return self.origin
        said = spoken(self.message)
        where = "" if self.message.seq is None else f"in message {self.message.seq}"
        when = f", on {said.said_at}, " if said.said_at else " "
        introduction = f"{where}{when}{said.speaker or 'you'} said".lstrip(" ,")
        return introduction[0].upper() + introduction[1:]


def statements(messages: Sequence[ChatMessage], question: str) -> Iterator[Passage]:
    """What people, notes and summaries state; no questions, and nothing that only repeats this one."""
    before: tuple[str, Spoken] | None = None
    for place, message in enumerate(messages):
        if message.role == "user" and (message.seq is not None or not _is_added(message)):
            said = spoken(message)
            if said.text != question:
                answers = _question_of_another(before, said)
                for text, terms in _passages(said.text, said.speaker or ""):
                    yield Passage(place, text, terms, answers, message)
            before = ("user", said)
        elif message.role == "assistant":
            before = ("assistant", spoken(message))
        else:
            yield from _stored_statements(place, message)


def tool_results(messages: Sequence[ChatMessage]) -> Iterator[Passage]:
    """The lines of results."""
    for place, message in enumerate(messages):
        data = stored_data(message)
        if message.role != "tool" and (data is None or data.tag != "tool_result"):
            continue
        tool = f" of {data.tool}" if data is not None and data.tool else ""
        origin = f"You said nothing about it, but a tool's result{tool} says"
        yield from _lines(place, message, message.content if data is None else data.text, origin)


def _is_added(message: ChatMessage) -> bool:
    return message.content.startswith("[") or stored_data(message) is not None


def _stored_statements(place: int, message: ChatMessage) -> Iterator[Passage]:
    data = stored_data(message) if message.role in ("user", "system") else None
    if data is not None and data.tag == MEMORIES:
        yield from _memories(message, data.text)
    elif data is not None and (origin := _PLACES_OF_DATA.get(data.tag)) is not None:
        yield from _lines(place, message, data.text, origin)


def _memories(message: ChatMessage, text: str) -> Iterator[Passage]:
    """What is remembered: each is as good as said last, since what was replaced is not remembered any more."""
    for number, (value, key) in enumerate(remembered_lines(text)):
        named = terms_of(_KEY_SIGNS.sub(" ", key))
        for passage, terms in _passages(value, ""):
            yield Passage(_AFTER_ALL - number, passage, terms | named, frozenset(), message, "I remember")


def _lines(place: int, message: ChatMessage, text: str, origin: str) -> Iterator[Passage]:
    for line in map(str.strip, text.splitlines()):
        for passage, terms in _passages(line, ""):
            yield Passage(place, passage, terms, frozenset(), message, origin)


def _question_of_another(before: tuple[str, Spoken] | None, said: Spoken) -> frozenset[str]:
    if before is None or "?" not in before[1].text:
        return frozenset()
    role, asked = before
    return _asked_terms(asked.text) if role == "assistant" or asked.speaker != said.speaker else frozenset()


def _passages(text: str, speaker: str) -> Sequence[tuple[str, frozenset[str]]]:
    """The statements of a text, in passages short enough to be quoted, and their terms with the speaker's name."""
    return _cached_passages(text, speaker) if len(text) <= _LONGEST_CACHED else _cut(text, speaker)


@lru_cache(maxsize=4096)
def _asked_terms(text: str) -> frozenset[str]:
    return terms_of(asked_in(text))


@lru_cache(maxsize=4096)
def _cached_passages(text: str, speaker: str) -> Sequence[tuple[str, frozenset[str]]]:
    return _cut(text, speaker)


def _cut(text: str, speaker: str) -> Sequence[tuple[str, frozenset[str]]]:
    named = terms_of(speaker)
    if len(text) <= _LONGEST and text.isascii() and "?" not in text:
        return () if not text or asks(text) else ((text, terms_of(text) | named),)
    spans: list[tuple[int, int]] = []
    stated: list[str] = []
    for begin, end in _short_statements(text):
        if spans and end - spans[-1][0] <= _LONGEST:
            spans[-1] = (spans[-1][0], end)
            stated[-1] += " " + text[begin:end]
        else:
            spans.append((begin, end))
            stated.append(text[begin:end])
    return tuple(
        (text[begin:end], terms_of(statement) | named) for (begin, end), statement in zip(spans, stated, strict=True)
    )


def _short_statements(text: str) -> Iterator[tuple[int, int]]:
    """Where the statements begin and end; very long ones in parts, cut between words where there are any."""
    for begin, end in sentences_of(text):
        if asks(text[begin:end]):
            continue
        start = begin
        while end - start > _LONGEST:
            blank = text.rfind(" ", start + 1, start + _LONGEST)
            cut = blank if blank > 0 else start + _LONGEST
            yield start, cut
            start = cut + (blank > 0)
        yield start, end
