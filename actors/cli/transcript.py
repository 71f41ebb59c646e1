"""Conversations in files, message by message: LoCoMo's form or JSON lines, plain or compressed with gzip."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast, get_args

from ...jobs.conversation import ImportedMessage
from ...storage.errors import InvalidInputError
from ...storage.records import Role
from ...storage.text import check_text, clean_text

LINE_FIELDS = ("role", "text", "created_at", "speaker", "id", "conversation")
ROLES = tuple(role for role in get_args(Role) if role != "tool")
SPACING = timedelta(minutes=1)
"""Between the messages of a LoCoMo session, which has one time for all of them."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SESSION_TIME = re.compile(r"(\d{1,2}):(\d{2}) ([ap]m) on (\d{1,2}) ([A-Za-z]+),? (\d{4})", re.IGNORECASE)
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMessage:
    """A message of a file; it always has an id, so that it is the same message when the file is read again."""

    conversation: str
    message: ImportedMessage


def read_transcript(path: Path, max_text_chars: int, *, prefix: str | None = None) -> Iterator[TranscriptMessage]:
    """The file's messages, in its order; each is checked when its turn comes.

    A conversation is called as the file calls it (`sample_id`, `conversation`), else like the file itself,
    with a number where the file holds several.

    Args:
        max_text_chars: A longer text is refused.
        prefix: Stands before the names that the file gives, and in place of the file's own.

    Raises:
        InvalidInputError: The file, or one of its messages, cannot be used. The error names file, place and field.
    """
    reading = _Reading(path=path, max_text_chars=max_text_chars, prefix=prefix)
    with _opened(path) as file:
        first = next((line for line in file if line.strip()), b"").removeprefix(_BYTE_ORDER_MARK)
        file.seek(0)
        yield from (_samples if first.lstrip().startswith(b"[") else _lines)(reading, file)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A file that is being read, and the ids that have come by."""

    path: Path
    max_text_chars: int
    prefix: str | None
    seen: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """By conversation and id: the content's digest, and the place."""
    repeats: dict[tuple[str, str], int] = field(default_factory=dict)
    """By conversation and digest: how many messages without an id have that content."""

    def fault(self, place: str, problem: str, remedy: str) -> InvalidInputError:
        return InvalidInputError(f"{self.path}, {place}" if place else str(self.path), problem, remedy)

    def conversation(self, name: str | None, number: int | None = None) -> str:
        if name is not None:
            return name if self.prefix is None else f"{self.prefix}-{name}"
        own = self.prefix or self.path.name.removesuffix(".gz").rpartition(".")[0] or self.path.name
        return own if number is None else f"{own}-{number}"

    def message(
        self,
        place: str,
        conversation: str,
        *,
        role: Role,
        text: object,
        created_at: datetime,
        speaker: str | None,
        given_id: str | None,
    ) -> TranscriptMessage:
        checked = check_text(text, f"{self.path}, {place}, text", self.max_text_chars)
        message = ImportedMessage(
            role=role,
            text=checked,
            created_at=created_at,
            speaker=speaker,
            message_id=self._id(place, conversation, (role, speaker or "", checked), created_at, given_id),
        )
        return TranscriptMessage(conversation=conversation, message=message)

    def _id(
        self,
        place: str,
        conversation: str,
        content: tuple[str, ...],
        created_at: datetime,
        given_id: str | None,
    ) -> str:
        """The id given; or one made of the content and of how often it has come before.

        The place in the file is no id: it would change for all that follows when a line is taken out.
        """
        if given_id is None:
            digest = _digest(*content, created_at.isoformat())
            self.repeats[conversation, digest] = number = self.repeats.get((conversation, digest), 0) + 1
            return f"transcript-{digest}-{number}"
        digest = _digest(*content)
        before, where = self.seen.setdefault((conversation, given_id), (digest, place))
        if before != digest:
            raise self.fault(
                f"{place}, id",
                f"{given_id!r} is the id of another message too ({where})",
                "give each message of a conversation an id of its own, or leave the ids out",
            )
        return given_id


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()[:32]


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if not path.is_file():
        problem = "it is no ordinary file" if path.exists() else "there is no such file"
        raise InvalidInputError(str(path), problem, "give a file of JSON lines, or one of LoCoMo's form")
    try:
        with path.open("rb") as plain:
            is_compressed = plain.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        with gzip.open(path) if is_compressed else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(
            str(path), f"it cannot be read ({error})", "see that it is whole and may be read"
        ) from error


# JSON lines.


def _lines(reading: _Reading, file: IO[bytes]) -> Iterator[TranscriptMessage]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield _line(reading, f"line {number}", line)


def _line(reading: _Reading, place: str, line: bytes) -> TranscriptMessage:
    entry = _json(reading, place, line)
    if not isinstance(entry, dict):
        raise reading.fault(
            place, f"a JSON {type(entry).__name__} stands there", "give an object with role, text and created_at"
        )
    unknown = [name for name in entry if name not in LINE_FIELDS]
    missing = [name for name in ("role", "text", "created_at") if entry.get(name) is None]
    if missing:
        raise reading.fault(f"{place}, {missing[0]}", "it is missing", "give role, text and created_at")
    if unknown:
        raise reading.fault(
            f"{place}, {unknown[0]}", "it is no field of a message", f"use {', '.join(LINE_FIELDS)} only"
        )
    role = entry["role"]
    if role not in ROLES:
        raise reading.fault(f"{place}, role", f"{role!r} is unknown", f"use one of {', '.join(ROLES)}")
    return reading.message(
        place,
        reading.conversation(_name(reading, place, entry, "conversation")),
        role=role,
        text=entry["text"],
        created_at=_time(reading, place, entry["created_at"]),
        speaker=_name(reading, place, entry, "speaker"),
        given_id=_name(reading, place, entry, "id"),
    )


def _time(reading: _Reading, place: str, given: object) -> datetime:
    """An ISO 8601 time as an aware one."""
    try:
        read = datetime.fromisoformat(cast(str, given))
    except (ValueError, TypeError) as error:
        raise reading.fault(
            f"{place}, created_at",
            f"{given!r} is no time in ISO 8601",
            "write it like 2024-05-08T13:56:00+00:00; without a zone it is UTC",
        ) from error
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


# LoCoMo: a list of samples; `session_3` is a list of messages, `session_3_date_time` when they were said.


def _samples(reading: _Reading, file: IO[bytes]) -> Iterator[TranscriptMessage]:
    samples = _json(reading, "", file.read())
    for number, sample in enumerate(samples, start=1):
        place = f"sample {number}"
        conversation = sample.get("conversation") if isinstance(sample, dict) else None
        if not isinstance(conversation, dict):
            raise reading.fault(
                f"{place}, conversation",
                "it is missing",
                "give a list of LoCoMo's samples, or one JSON object a line for messages of your own",
            )
        own_name = _name(reading, place, sample, "sample_id")
        name = reading.conversation(own_name, number if own_name is None and len(samples) > 1 else None)
        sessions = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
        for session in sessions:
            yield from _session(reading, f"{place}, session_{session}", name, conversation, session)


def _session(
    reading: _Reading, place: str, name: str, conversation: Mapping[str, Any], session: int
) -> Iterator[TranscriptMessage]:
    messages = conversation[f"session_{session}"]
    if not isinstance(messages, list):
        raise reading.fault(place, "it is no list", "give the session's messages as a list")
    began_at = _session_time(reading, f"{place}_date_time", conversation.get(f"session_{session}_date_time"))
    for number, entry in enumerate(messages):
        here = f"{place}, message {number + 1}"
        if not isinstance(entry, dict):
            raise reading.fault(here, f"a {type(entry).__name__} stands there", "give speaker, dia_id and text")
        yield reading.message(
            here,
            name,
            role="user",
            text=_text_with_images(reading, here, entry),
            created_at=began_at + number * SPACING,
            speaker=_name(reading, here, entry, "speaker"),
            given_id=_name(reading, here, entry, "dia_id"),
        )


def _session_time(reading: _Reading, place: str, given: object) -> datetime:
    """A time like `1:56 pm on 8 May, 2023`; it has no zone and is taken as UTC."""
    found = _SESSION_TIME.fullmatch(given.strip()) if isinstance(given, str) else None
    if found:
        hour, minute, half, day, month, year = found.groups()
        try:
            return datetime(
                int(year),
                _MONTHS.index(month.lower()) + 1,
                int(day),
                int(hour) % 12 + (12 if half.lower() == "pm" else 0),
                int(minute),
                tzinfo=UTC,
            )
        except ValueError:
            pass  # no such month, day or minute
    raise reading.fault(place, f"{given!r} is no time", "write it like '1:56 pm on 8 May, 2023'")


def _text_with_images(reading: _Reading, place: str, entry: Mapping[str, Any]) -> str:
    text = entry.get("text") or ""
    if not isinstance(text, str):
        raise reading.fault(f"{place}, text", f"a {type(text).__name__} stands there", "give a text")
    urls = entry.get("img_url") or []
    pictured = [entry.get("blip_caption"), *([urls] if isinstance(urls, str) else urls)]
    described = "; ".join(str(part) for part in pictured if part)
    return " ".join(part for part in (text, f"[image: {described}]" if described else "") if part)


def _json(reading: _Reading, place: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        where = place or f"line {error.lineno}"
        raise reading.fault(
            where, f"no JSON: {error.msg} (column {error.colno})", "correct the file; each line is one JSON object"
        ) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise reading.fault(place, f"no JSON in UTF-8 ({error})", "correct the file, or convert it to UTF-8") from error


def _name(reading: _Reading, place: str, entry: Mapping[str, Any], key: str) -> str | None:
    """A text that may be left out."""
    given = entry.get(key)
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise reading.fault(f"{place}, {key}", f"a {type(given).__name__} stands there", "give a text, or leave it out")
    return clean_text(given)
