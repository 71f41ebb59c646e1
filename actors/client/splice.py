"""A streamed turn's text across attempts: what was told once is not told twice, nor silently changed."""

from __future__ import annotations

from collections.abc import Iterator

from ...jobs.turn_events import TextPiece
from ...storage.records import Reply
from .events import Restarted, Text


class TextSplicer:
    """Joins the attempts of a turn: the text after the last `Restarted` is the reply's, piece by piece."""

    def __init__(self) -> None:
        self._told = ""
        self._attempt = 0
        self._attempt_text = ""

    def piece(self, piece: TextPiece) -> Iterator[Text | Restarted]:
        """What a piece of an attempt adds to what has been told."""
        if piece.attempt != self._attempt:
            self._attempt, self._attempt_text = piece.attempt, ""
        self._attempt_text = self._attempt_text[: piece.offset] + piece.text
        if self._told.startswith(self._attempt_text):
            return  # a later attempt says again what was said; so far the same
        yield from self._tell(self._attempt_text)

    def reply(self, reply: Reply) -> Iterator[Text | Restarted]:
        """What is missing at the end."""
        if self._told != reply.text:
            yield from self._tell(reply.text)

    def _tell(self, text: str) -> Iterator[Text | Restarted]:
        if not text.startswith(self._told):
            yield Restarted()
            self._told = ""
        if text != self._told:
            yield Text(text=text[len(self._told) :])
        self._told = text
