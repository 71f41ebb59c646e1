"""Where a data directory's host is, how it is found alive, and how its clients are counted: files in `run/`."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..storage.liveness import is_running

LOOKS = 3
LOOK_S = 0.02
"""The host, too, asks now and then whether there are clients, and for that moment seems to be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """A running host."""

    pid: int
    address: str
    """Of its Ray, `host:port`."""
    settings: Mapping[str, Any]
    """In force, by section, as `read_settings` takes them."""

    def write(self, run_dir: Path) -> None:
        """Make it known."""
        unfinished = run_dir / f".address.json.{os.getpid()}"
        unfinished.write_text(json.dumps(asdict(self)), encoding="utf-8")
        unfinished.replace(run_dir / "address.json")


def find_host(run_dir: Path) -> HostAddress | None:
    """The host that serves a data directory, if one does; an address left by one that died is none."""
    try:
        data = json.loads((run_dir / "address.json").read_text(encoding="utf-8"))
        found = HostAddress(**data)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return found if is_locked(run_dir / "host.lock") and is_running(found.pid) else None


def wait_until_unserved(run_dir: Path, timeout_s: float = 30.0) -> bool:
    """Wait until no host holds the data directory, which takes some seconds after its last client; is it so?"""
    limit = time.monotonic() + timeout_s
    while is_locked(run_dir / "host.lock"):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def holder_pid(run_dir: Path) -> int | None:
    """The process that holds the data directory, or None."""
    path = run_dir / "host.lock"
    if not is_locked(path):
        return None
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # it has not written its number yet


def serving_since(run_dir: Path) -> datetime | None:
    """Since when the host serves, UTC."""
    try:
        return datetime.fromtimestamp((run_dir / "address.json").stat().st_mtime, UTC)
    except FileNotFoundError:
        return None


def keep_mark(run_dir: Path) -> Path:
    """The file that keeps a host without clients."""
    return run_dir / "keep"


def is_locked(path: Path) -> bool:
    """Does a process hold this lock exclusively?"""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


class ClientLock:
    """A client's share of `clients.lock`. The system takes it away with the process, however that ends."""

    def __init__(self, run_dir: Path) -> None:
        self._descriptor = os.open(run_dir / "clients.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """There is one client less."""
        os.close(self._descriptor)


def client_pids(run_dir: Path) -> Sequence[int] | None:
    """The processes that hold a share of `clients.lock`; None: there are some, and the system does not tell which."""
    for _ in range(LOOKS):
        if not has_clients(run_dir):
            return []
        time.sleep(LOOK_S)
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    status = (run_dir / "clients.lock").stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = {
        int(fields[4])
        for fields in map(str.split, locks.splitlines())
        if fields[1:2] == ["FLOCK"] and fields[3:4] == ["READ"] and fields[5:6] == [place]
    }
    return sorted(found) or None


def has_clients(run_dir: Path) -> bool:
    """Does any process hold a share of `clients.lock`?"""
    with no_clients(run_dir) as is_so:
        return not is_so


@contextmanager
def no_clients(run_dir: Path) -> Iterator[bool]:
    """Says whether there is no client; if so, none comes while the block lasts."""
    descriptor = os.open(run_dir / "clients.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
