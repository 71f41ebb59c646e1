"""Marks of live conversations on a node: files whose time is the last use, so that anybody can find the oldest."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..storage.liveness import is_running


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A live conversation, as its mark tells."""

    actor_name: str
    pid: int
    last_used: float
    """Seconds since the epoch, by the file system's clock."""


def live_folder(data_dir: Path) -> Path:
    """Where this node's marks are."""
    return data_dir / "run" / "live" / socket.gethostname()


class LiveMark:
    """The mark of this process's conversation."""

    def __init__(self, folder: Path, actor_name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(actor_name.encode("utf-8")).hexdigest()[:32]
        self._path = folder / f"{digest}-{os.getpid()}"  # its successor's is another file, whoever removes this one
        unfinished = folder / f".{self._path.name}"
        unfinished.write_text(json.dumps({"actor": actor_name, "pid": os.getpid()}), encoding="utf-8")
        unfinished.replace(self._path)

    def touch(self) -> None:
        """It is in use."""
        with suppress(FileNotFoundError):  # somebody emptied the run folder; the next activation makes it anew
            os.utime(self._path)

    def remove(self) -> None:
        """It is live no more."""
        self._path.unlink(missing_ok=True)


def live_conversations(folder: Path) -> Sequence[Live]:
    """The live conversations of a node, the one unused for longest first. Marks of dead processes go."""
    found = []
    for path in folder.glob("[0-9a-f]*-*"):
        try:
            mark = json.loads(path.read_text(encoding="utf-8"))
            live = Live(actor_name=mark["actor"], pid=mark["pid"], last_used=path.stat().st_mtime)
        except (FileNotFoundError, ValueError, KeyError):
            continue
        if is_running(live.pid):
            found.append(live)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda live: live.last_used)
