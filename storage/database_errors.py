"""What DuckDB and the system raise, as errors that name the file and say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from .errors import (
    DataDirectoryError,
    DiskFullError,
    FileCorruptError,
    FileInUseError,
    FileTooNewError,
    StorageError,
)

_FULL = ("no space left on device", "disk quota exceeded", "file too large")
_UNREACHABLE = (
    "permission denied",
    "read-only file system",
    "not a directory",
    "is a directory",
    "no such file or directory",
    "file name too long",
)
_DAMAGED = ("corrupt", "not a valid duckdb database", "could not read enough bytes", "replaying wal")
"""Phrases of DuckDB 2.0 and of `strerror` in lower case; DuckDB's exception types do not tell them apart."""


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Turn failures of a file into errors that name it. Mistakes in our own SQL stay what they are."""
    try:
        yield
    except PermissionError as error:
        raise DataDirectoryError(str(path), f"no permission ({error.strerror}); give this user write access") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _disk_full(path, str(error.strerror)) from error
        raise DataDirectoryError(str(path), f"cannot be used ({error.strerror or error})") from error
    except duckdb.Error as error:
        named = _named(path, error)
        if named is None:
            raise
        raise named from error


def _named(path: Path, error: duckdb.Error) -> StorageError | None:
    """The error to raise for one of DuckDB's; None for what no state of a file can cause."""
    if isinstance(error, duckdb.DatabaseError) and not isinstance(
        error, (duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
    ):
        return None
    text = str(error)
    lower = text.replace(str(path), "").lower()  # the phrases may stand in the path
    if "could not set lock" in lower:
        _, _, holder = text.partition("Conflicting lock is held in ")
        owner = holder.splitlines()[0].split(". ")[0].strip() if holder else "another process"
        return FileInUseError(str(path), f"held by {owner}; one process owns a file, ask it or end it")
    if any(phrase in lower for phrase in _FULL):
        return _disk_full(path, text)
    if any(phrase in lower for phrase in _UNREACHABLE):
        return DataDirectoryError(str(path), f"cannot be used ({text}); give this user read and write access")
    if "newer version of duckdb" in lower:
        return FileTooNewError(str(path), f"written by a newer DuckDB ({text}); upgrade Perdure")
    if isinstance(error, duckdb.SerializationException) or any(phrase in lower for phrase in _DAMAGED):
        return FileCorruptError(str(path), f"cannot be read ({text}); restore it from a backup or move it away")
    if isinstance(error, duckdb.OutOfMemoryException):
        return StorageError(
            str(path),
            f"needs more memory than its limit ({text}); raise conversations.file_memory_limit_mib, or for the file of"
            " memories memory.file_memory_limit_mib",
        )
    if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
        return StorageError(str(path), f"DuckDB gave the file up after a failure ({text}); the next call opens it anew")
    return StorageError(str(path), text)


def _disk_full(path: Path, reason: str) -> DiskFullError:
    return DiskFullError(str(path), f"the disk took no more ({reason}); free some space and repeat the call")
