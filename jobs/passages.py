"""Passages of the model's view: messages whose text may be shortened, and stored text between delimiters.

Stored text is data: it stands between tags, and a tag of ours inside it is escaped, so that nothing it says
can end its passage early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

from ..storage.records import CallId, CallStatus, Role, ToolCall
from ..storage.text import cut_marker, cut_text
from ..storage.tokens import estimate_message_tokens, estimate_tokens
from .chat_model import ChatMessage

UNKNOWN_RESULT = "It was started, and no result was recorded: it may have happened."
"""What the model is told of a call of which nobody can tell whether it happened."""

_TAGS = (
    "working_notes",
    "ongoing_task",
    "memories",
    "conversation_summary",
    "stored_message",
    "tool_result",
    "earlier_calls",
)
_OUR_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)

_MARKER_TOKENS = 28  # more than the marker of a cut takes, even at 1.5 characters a token
_KEPT_END = 0.25  # what a cut keeps of the end: questions and errors tend to stand there
_CHARS_PER_TOKEN = 3.5  # the most there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A message and the part of its content that may be shortened."""

    message: ChatMessage
    """Its content is `before`, the text and `after`."""
    text: str
    before: str = ""
    after: str = ""
    tokens: int
    """Of the whole message."""

    @property
    def least(self) -> int:
        """The fewest tokens to which it can be shortened."""
        kept = self._tokens_beside + estimate_tokens(self.before + self.after) + _MARKER_TOKENS
        return min(self.tokens, kept)

    @property
    def _tokens_beside(self) -> int:
        return estimate_message_tokens("", self.message.tool_calls)

    def shortened(self, max_tokens: int) -> Passage:
        """The passage in at most so many tokens, not fewer than `least`; a cut says how much it left out."""
        if self.tokens <= max_tokens:
            return self
        room = max_tokens - self._tokens_beside
        frame = len(self.before) + len(self.after)
        chars = int(room * _CHARS_PER_TOKEN)
        text = cut_marker(len(self.text), _KEPT_END)
        tokens = estimate_tokens(self.before + text + self.after)
        while chars > frame + len(text):
            cut = cut_text(self.text, chars - frame, kept_end=_KEPT_END)
            taken = estimate_tokens(self.before + cut + self.after)
            if taken <= room:
                text, tokens = cut, taken
                break
            chars = (frame + len(cut)) * room // taken
        return replace(
            self,
            message=replace(self.message, content=self.before + text + self.after),
            text=text,
            tokens=tokens + self._tokens_beside,
        )


def passage(
    role: Role,
    text: str,
    *,
    before: str = "",
    after: str = "",
    tool_calls: tuple[ToolCall, ...] = (),
    call_id: CallId | None = None,
    speaker: str | None = None,
    seq: int | None = None,
    tokens: int | None = None,
) -> Passage:
    """A message of the view.

    Args:
        tokens: Of the whole message, where they are known.
    """
    content = before + text + after if before or after else text
    return Passage(
        message=ChatMessage(
            role=role, content=content, tool_calls=tool_calls, call_id=call_id, speaker=speaker, seq=seq
        ),
        text=text,
        before=before,
        after=after,
        tokens=estimate_message_tokens(content, tool_calls) if tokens is None else tokens,
    )


def data_passage(tag: str, text: str, *, heading: str, seq: int | None = None) -> Passage:
    """Stored text as a message of the user's role, below a heading of ours."""
    return passage("user", escaped(text), before=f"{heading}\n<{tag}>\n", after=f"\n</{tag}>", seq=seq)


def result_passage(call_id: CallId, status: CallStatus, text: str, *, seq: int | None = None) -> Passage:
    """A tool message."""
    if status == "unknown":
        return passage("tool", UNKNOWN_RESULT, call_id=call_id, seq=seq)
    before = "" if status == "succeeded" else f"[{status}] "
    return passage("tool", text, before=before, call_id=call_id, seq=seq)


def escaped(text: str) -> str:
    """The text with the tags of this module disarmed; all else, other tags among it, stays as it is."""
    return _OUR_TAG.sub("&lt;", text) if "<" in text else text


def on_one_line(text: str, max_chars: int) -> str:
    """Stored text for use within a sentence: without line breaks and tags, cut to a length."""
    line = escaped(" ".join(text[: 4 * max_chars].split()))
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


class Counted(Protocol):
    """Anything whose tokens are known."""

    @property
    def tokens(self) -> int:
        """Estimated."""
        ...


_tokens: attrgetter[int] = attrgetter("tokens")  # over hundreds of messages twice as fast as a generator


def tokens_of(counted: Iterable[Counted]) -> int:
    """Their tokens together."""
    return sum(map(_tokens, counted))


def least_of(passages: Sequence[Passage]) -> int:
    """The fewest tokens that they take together."""
    return sum(one.least for one in passages)


def fitted(passages: Sequence[Passage], room: int) -> list[Passage]:
    """The passages in so many tokens, at least `least_of` them: short ones whole, long ones equally long."""
    if tokens_of(passages) <= room:
        return list(passages)
    allotted = allot([one.tokens for one in passages], [one.least for one in passages], room)
    return [one.shortened(tokens) for one, tokens in zip(passages, allotted, strict=True)]


def allot(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Divides room: everybody gets the least, and of the rest equal parts, but nobody more than wanted."""
    allotted = list(least)
    rest = room - sum(least)
    by_need = sorted(range(len(wanted)), key=lambda place: wanted[place] - least[place])
    for taken, place in enumerate(by_need):
        extra = min(wanted[place] - least[place], max(rest, 0) // (len(wanted) - taken))
        allotted[place] += extra
        rest -= extra
    return allotted
