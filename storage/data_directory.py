"""The data directory as a whole: made, checked, held, and known by an id."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from .errors import DataDirectoryError, FileInUseError


class DataDirectory:
    """A data directory that can be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def prepare(cls, path: Path) -> DataDirectory:
        """Make the directory if need be, for its owner only, and see that it can be written.

        Raises:
            DataDirectoryError: It cannot; the message says why.
        """
        path = path.expanduser().absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)  # one that is there keeps the mode that somebody chose
            (path / "run").mkdir(exist_ok=True)
            probe = path / "run" / f".probe.{os.getpid()}"
            probe.write_bytes(b"\0")
            probe.unlink()
        except OSError as error:
            raise DataDirectoryError(
                str(path),
                f"cannot be used as data directory ({error.strerror}); make it writable or choose another",
            ) from error
        return cls(path)

    def hold(self) -> None:
        """Keep other runtimes out until `release`, or the end of this process.

        Raises:
            FileInUseError: One is in.
        """
        descriptor = os.open(self.path / "run" / "host.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise FileInUseError(
                str(self.path),
                f"in use by the runtime of process {holder}; close that one, or use another data_dir",
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._lock = descriptor

    def release(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def runtime_id(self, new_id: str) -> str:
        """The id under which this directory's runtime is known; `new_id` becomes it where there is none."""
        path = self.path / "runtime.json"
        unfinished = path.with_name(f".runtime.json.{os.getpid()}")
        unfinished.write_text(json.dumps({"id": new_id}), encoding="utf-8")
        try:
            os.link(unfinished, path)
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataDirectoryError(str(path), f"cannot be read ({error}); restore it from a backup") from error
