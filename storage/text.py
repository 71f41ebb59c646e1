"""Text at the door: what may be stored, how it is cut, and how any string can be an id."""

from __future__ import annotations

import re

from .errors import InvalidInputError

_ID_MARK = "%!"
_ID_BROKEN = re.compile("[\x00%\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD; everything else stays as it is.

    The two halves of a surrogate pair that stand side by side, as a JSON escape decoded half by half leaves
    them, become the character they mean.
    """
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    return text if _is_encodable(text) else _without_surrogates(text, errors="replace")


def cut_text(text: str, max_chars: int, *, kept_end: float = 0.0) -> str:
    """The text, or a part of it and a marker that says how many characters were left out.

    Args:
        max_chars: Of the result, in code points. Too few for the marker: the bare beginning is kept.
        kept_end: Share of what is kept that is taken from the end; the marker then stands between the parts.
    """
    if len(text) <= max_chars:
        return text
    left_out = len(text) - max_chars
    while len(text) - left_out + len(marker := cut_marker(left_out, kept_end)) > max_chars:
        left_out = len(text) - max_chars + len(marker)
    kept = len(text) - left_out
    if kept < 0:
        return text[: max(max_chars, 0)]
    from_end = int(kept * kept_end)
    return text[: kept - from_end] + marker + text[len(text) - from_end :]


def cut_marker(left_out: int, kept_end: float = 0.0) -> str:
    """What stands in place of so many characters."""
    return f"\n[… {left_out:,} characters left out]" + ("\n" if kept_end > 0 else "")


def storable_id(given: str, field: str) -> str:
    """The form in which an id is stored: itself, for nearly every string.

    An id with a NUL or a lone surrogate is escaped, since no file or column takes it; so is one that looks
    escaped already. Different ids stay different, but for a surrogate pair in two halves, which is its
    character.

    Raises:
        InvalidInputError: It is no string, or empty.
    """
    if not isinstance(given, str):
        raise InvalidInputError(field, f"an id is a string, not {_kind(given)}", "give a non-empty string")
    if not given:
        raise InvalidInputError(field, "the id is an empty string", "give a non-empty string")
    if not _is_encodable(given):
        given = _without_surrogates(given, errors="surrogatepass")
    if "\0" in given or given.startswith(_ID_MARK) or not _is_encodable(given):
        return _ID_MARK + _ID_BROKEN.sub(lambda found: f"%{ord(found[0]):04x}", given)
    return given


def check_text(text: object, field: str, max_chars: int, setting: str = "turn.max_text_chars") -> str:
    """The text of a message or a memory, cleaned.

    Args:
        setting: Where `max_chars` comes from.

    Raises:
        InvalidInputError: It is no string, blank, or longer than `max_chars` code points. Nothing was kept.
    """
    if not isinstance(text, str):
        raise InvalidInputError(field, f"a text is a string, not {_kind(text)}", "give a string")
    if not text or text.isspace():
        what = "empty" if not text else f"blank ({len(text):,} characters of white space)"
        raise InvalidInputError(field, f"the text is {what}", "give a text with at least one visible character")
    cleaned = clean_text(text)
    if len(cleaned) > max_chars:
        raise InvalidInputError(
            field,
            f"the text has {len(cleaned):,} characters, the limit is {max_chars:,}",
            f"send a shorter text, or raise the setting {setting}",
        )
    return cleaned


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _without_surrogates(text: str, errors: str) -> str:
    """Pairs joined; `errors` decides about the lone ones."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
