"""What LanceDB and the system raise about an index, as errors that name it and say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import DataDirectoryError, DiskFullError, IndexDamagedError, IndexUnavailableError, PerdureError

_FULL = ("no space left on device", "disk quota exceeded", "file too large")
_UNREACHABLE = ("permission denied", "read-only file system", "not a directory")
_PASSING = ("conflict", "retry", "too many open files", "timed out", "timeout", "temporarily unavailable")
"""Phrases of Lance and of `strerror` in lower case; LanceDB raises plain RuntimeError and ValueError for all."""


@contextmanager
def index_errors(path: Path) -> Iterator[None]:
    """Turn failures of a table into errors that name it."""
    try:
        yield
    except PerdureError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFullError(str(path), _full(str(error.strerror))) from error
        raise _named(path, error) from error
    except (RuntimeError, ValueError) as error:
        raise _named(path, error) from error


def _named(path: Path, error: Exception) -> PerdureError:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    lower = str(error).replace(str(path), "").lower()
    if any(phrase in lower for phrase in _FULL):
        return DiskFullError(str(path), _full(text))
    if any(phrase in lower for phrase in _UNREACHABLE):
        return DataDirectoryError(str(path), f"cannot be used ({text}); give this user read and write access")
    if any(phrase in lower for phrase in _PASSING):
        return IndexUnavailableError(str(path), f"could not be used just now ({text}); repeat the call")
    return IndexDamagedError(str(path), f"cannot be read ({text}); run `perdure reindex`")


def _full(reason: str) -> str:
    return f"the disk took no more ({reason}); free some space and repeat the call"
