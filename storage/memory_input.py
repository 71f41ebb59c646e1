"""What may be stored of a memory: checked, and in the form in which it is stored."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import datetime

from .database import from_stored, to_stored
from .errors import InvalidInputError
from .memory_keys import AgentId, Scope
from .memory_records import MemoryId, VersionId, WriteId
from .memory_write_records import MemoryWrite
from .records import ContactId
from .settings import MemorySettings
from .text import check_text, clean_text

MAX_KEY_CHARS = 1024
MAX_NAME_CHARS = 1024
"""Of ids, sources, fact types and reasons."""
MAX_METADATA_CHARS = 100_000

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_uuid(text: str) -> bool:
    """Is it a UUID in the form in which memories have theirs?"""
    return bool(_UUID.fullmatch(text))


def stored_key(given: str) -> str:
    """A key in the form in which it is stored; a stored one stays as it is.

    Raises:
        InvalidInputError: It is no string, blank or too long.
    """
    return _name(given, "key", MAX_KEY_CHARS)


def content_hash(value: str) -> str:
    """What tells whether a value has to be embedded anew: SHA-256, hexadecimal."""
    return hashlib.sha256(value.encode("utf-8")).hexdigest()


def stored_metadata(given: str) -> str:
    """Metadata with its keys in order, so that equal ones are equal texts.

    Raises:
        InvalidInputError: It is no JSON of an object, or too long.
    """
    remedy = "give an object with finite numbers, as JSON text"
    try:
        parsed = json.loads(given)
        canonical = json.dumps(parsed, sort_keys=True, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError("metadata", f"it cannot be read as JSON ({error})", remedy) from error
    if not isinstance(parsed, dict):
        raise InvalidInputError("metadata", f"it is a JSON {type(parsed).__name__}, not an object", remedy)
    if len(canonical) > MAX_METADATA_CHARS:
        raise InvalidInputError(
            "metadata",
            f"it has {len(canonical):,} characters of JSON, the limit is {MAX_METADATA_CHARS:,}",
            "put long texts into the value",
        )
    return canonical


def stored_moment(moment: datetime, field: str = "at") -> datetime:
    """A moment as an aware UTC datetime; a naive one is taken as UTC.

    Raises:
        InvalidInputError: It is no moment, or one that UTC does not know.
    """
    try:
        return from_stored(to_stored(moment))
    except (OverflowError, AttributeError, TypeError) as error:
        raise InvalidInputError(field, f"{cut(moment)} is no moment ({error})", "give a datetime") from error


def checked_value(value: str, settings: MemorySettings) -> str:
    """The text of a memory, cleaned.

    Raises:
        InvalidInputError: It is no string, blank or too long.
    """
    return check_text(value, "value", settings.max_value_chars, "memory.max_value_chars")


def checked_fact_type(fact_type: str) -> str:
    """A fact type as it is stored.

    Raises:
        InvalidInputError: It is no string, blank or too long.
    """
    return _name(fact_type, "fact_type", MAX_NAME_CHARS)


def checked_reason(reason: str) -> str:
    """A reason as it is stored.

    Raises:
        InvalidInputError: It is no string, blank or too long.
    """
    return _name(reason, "reason", MAX_NAME_CHARS)


def checked_write(write: MemoryWrite, settings: MemorySettings) -> MemoryWrite:
    """A write in the form in which it is stored.

    Raises:
        InvalidInputError: Something of it cannot be stored; names the field.
    """
    contact_id = write.scope.contact_id
    return replace(
        write,
        write_id=WriteId(_id(write.write_id, "write_id")),
        memory_id=MemoryId(_uuid(write.memory_id, "memory_id")),
        agent_id=AgentId(_id(write.agent_id, "agent_id")),
        scope=write.scope if contact_id is None else Scope(contact_id=ContactId(_id(contact_id, "contact_id"))),
        key=stored_key(write.key),
        value=checked_value(write.value, settings),
        fact_type=None if write.fact_type is None else checked_fact_type(write.fact_type),
        metadata=None if write.metadata is None else stored_metadata(write.metadata),
        graph_id=_optional_name(write.graph_id, "graph_id"),
        task_id=_optional_name(write.task_id, "task_id"),
        session_id=_optional_name(write.session_id, "session_id"),
        source=_name(write.source, "source", MAX_NAME_CHARS),
        confidence=_share(write.confidence),
        supersedes=tuple(map(_version, write.supersedes)),
        reason=checked_reason(write.reason),
        at=stored_moment(write.at),
        valid_from=stored_moment(write.at if write.valid_from is None else write.valid_from, "valid_from"),
    )


def _version(version: VersionId) -> VersionId:
    return replace(version, memory_id=MemoryId(_uuid(version.memory_id, "supersedes")))


def _uuid(given: str, field: str) -> str:
    lower = str(given).lower()
    if not is_uuid(lower):
        raise InvalidInputError(field, f"{cut(given)} is no UUID", "give one as text, of 32 digits and four hyphens")
    return lower


def _id(given: str, field: str) -> str:
    """An id that an earlier door has brought into a form that can be stored."""
    name = _name(given, field, MAX_NAME_CHARS)
    if name != given:
        raise InvalidInputError(field, f"{cut(given)} has characters that no file takes", "give its stored form")
    return given


def _optional_name(given: str | None, field: str) -> str | None:
    return None if given is None else _name(given, field, MAX_NAME_CHARS)


def _name(given: object, field: str, max_chars: int) -> str:
    if not isinstance(given, str):
        raise InvalidInputError(field, f"it is {type(given).__name__}, not text", "give a non-empty string")
    if not given or given.isspace():
        raise InvalidInputError(field, "it is empty or blank", "give a non-empty string")
    if len(given) > max_chars:
        raise InvalidInputError(field, f"it has {len(given):,} characters, the limit is {max_chars:,}", "shorten it")
    return clean_text(given)


def _share(confidence: object) -> float | None:
    if confidence is None:
        return None
    if not isinstance(confidence, int | float) or not 0 <= confidence <= 1:  # NaN is not, either
        raise InvalidInputError("confidence", f"{cut(confidence)} is not between 0 and 1", "give a number from 0 to 1")
    return float(confidence)


def cut(given: object) -> str:
    """A given value as an error shows it."""
    shown = repr(given)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
