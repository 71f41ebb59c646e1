"""What the messages of a request are, read back by the models that are none: input, results, notes, quotations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .chat_model import ChatMessage

_DATA = re.compile(r"(?:[^\n<]*\n)?<(?P<tag>\w+)(?P<attributes>[^\n]*)>\n")
_TOOL = re.compile(r"\btool=(.*?) status=")
_LABEL = re.compile(r"\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)(?:, (?P<speaker>[^\]\n]+))?\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredData:
    """Stored text that the runtime shows between tags."""

    tag: str
    text: str
    tool: str | None = None
    """Of a result: the tool it came from, where the tag says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A message that a person wrote."""

    text: str
    speaker: str | None = None
    said_at: str | None = None
    """As the label of an imported message has it."""


def input_place(messages: Sequence[ChatMessage]) -> int | None:
    """The place of the user's newest message: what is to be answered.

    What the runtime adds may have the user's role too, after the input as well as before it; it has no `seq`.
    A request without any `seq` was not made by the runtime, and its last user message counts.
    """
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    stored = [place for place in places if messages[place].seq is not None]
    return next(reversed(stored or places), None)


def stored_data(message: ChatMessage) -> StoredData | None:
    """The stored text that a message shows between tags; None if it shows none."""
    if message.role == "user" and message.seq is not None:
        return None  # what a user writes between tags is the user's
    found = _DATA.match(message.content)
    if found is None:
        return None
    end = f"\n</{found['tag']}>"
    if not message.content.endswith(end):
        return None
    tool = _TOOL.search(found["attributes"])
    return StoredData(tag=found["tag"], text=message.content[found.end() : -len(end)], tool=tool[1] if tool else None)


def result_text(message: ChatMessage) -> str:
    """The text of a tool message, without the tags around it."""
    data = stored_data(message)
    return data.text if data is not None and data.tag == "tool_result" else message.content


def spoken(message: ChatMessage) -> Spoken:
    """A user's message, apart from the label that an imported one begins with."""
    label = _LABEL.match(message.content) if message.content.startswith("[") else None
    if label is None:
        return Spoken(text=message.content, speaker=message.speaker)
    return Spoken(text=message.content[label.end() :], speaker=message.speaker or label["speaker"], said_at=label["at"])
