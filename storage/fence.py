"""The fence of a file: which activation may write it. An older one that wakes up must not acknowledge anything."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import FencedError


class Fence:
    """A small file beside the database that holds the epoch of its newest activation.

    The database's lock keeps two processes apart on one machine. This holds where it does not: a lock lost with
    a network volume, a file put back from a copy.
    """

    def __init__(self, database: Path, epoch: int) -> None:
        self._path = database.with_suffix(".epoch")
        self._database = database
        self._epoch = epoch
        self._mine: tuple[int, int] | None = None

    def claim(self) -> None:
        """Raise the fence for this epoch.

        Raises:
            FencedError: A newer activation has raised it.
        """
        held = self._held()
        if held > self._epoch:
            raise FencedError(str(self._database), self._epoch, held)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, str(self._epoch).encode("ascii"))
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(self._path)
        self._mine = (status.st_dev, status.st_ino)

    def check(self) -> None:
        """See that this activation is still the newest: before a commit, and again before it is acknowledged.

        Raises:
            FencedError: It is not.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            raise FencedError(str(self._database), self._epoch, None) from None
        if (status.st_dev, status.st_ino) != self._mine:
            raise FencedError(str(self._database), self._epoch, self._held())

    def _held(self) -> int:
        try:
            return int(self._path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0
