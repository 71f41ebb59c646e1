"""Many conversations under a small cap: how many processes that takes, and how much memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from perdure.actors import Agent
from perdure.storage.errors import PerdureError

THREADS = 4
CALL_TIMEOUT_S = 120.0
LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What came of opening them."""

    replied: int
    resumed: int
    """How many, asked again, had their first turn still."""
    errors: Sequence[str]
    peak_processes: int
    peak_pss_mib: float
    """Of all conversations' processes together, those that are starting or ending included."""
    seconds: float

    @property
    def result(self) -> dict[str, float]:
        """As it is printed."""
        return {
            "opened": self.replied,
            "resumed": self.resumed,
            "errors": len(self.errors),
            "peak_processes": self.peak_processes,
            "peak_pss_mib": round(self.peak_pss_mib, 1),
        }


class ConversationProcesses:
    """The processes of a Ray's conversations, found as children of its raylet."""

    def __init__(self, ray_dir: Path) -> None:
        self._raylet = next(pid for pid in _pids() if _is_raylet(_command(pid), str(ray_dir).encode()))

    def pids(self) -> Sequence[int]:
        """Those that there are now."""
        children: list[int] = []
        for listed in Path(f"/proc/{self._raylet}/task").glob("*/children"):
            children += map(int, _text(listed).split())
        return [pid for pid in children if b"ConversationProcess" in _command(pid)]

    def pss_mib(self) -> tuple[int, float]:
        """How many there are, and the memory of all: proportional set size."""
        found = [_pss_mib(pid) for pid in self.pids()]
        return len(found), sum(found)


class Watch:
    """Looks at the processes, beside whatever goes on, and keeps the highest figures."""

    def __init__(self, processes: ConversationProcesses) -> None:
        self._processes = processes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peak_processes, self.peak_pss_mib = 0, 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(LOOK_S):
            count, pss_mib = self._processes.pss_mib()
            self.peak_processes = max(self.peak_processes, count)
            self.peak_pss_mib = max(self.peak_pss_mib, pss_mib)


def open_many(agent: Agent, count: int, ray_dir: Path, *, resume: int) -> Opened:
    """Send a turn to each of so many new conversations from a few threads, then ask the first ones again.

    Args:
        resume: How many are asked whether they still have their turn.
    """
    errors: list[str] = []
    started = time.monotonic()

    def succeeded(number: int, works: Callable[[int], bool]) -> bool:
        try:
            return works(number)
        except PerdureError as error:
            errors.append(f"many-{number}: {type(error).__name__}: {error}")
            return False

    def replies(number: int) -> bool:
        chat = agent.conversation(f"many-{number}", timeout_s=CALL_TIMEOUT_S)
        return bool(chat.send(f"I am {number}.", turn_id="first", timeout_s=CALL_TIMEOUT_S).text)

    def resumes(number: int) -> bool:
        chat = agent.conversation(f"many-{number}", timeout_s=CALL_TIMEOUT_S)
        rows = chat.history(timeout_s=CALL_TIMEOUT_S)
        return [row.role for row in rows] == ["user", "assistant"] and rows[0].content == f"I am {number}."

    with Watch(ConversationProcesses(ray_dir)) as watch, ThreadPoolExecutor(THREADS) as threads:
        replied = sum(threads.map(lambda number: succeeded(number, replies), range(count)))
        resumed = sum(threads.map(lambda number: succeeded(number, resumes), range(resume)))
    return Opened(
        replied=replied,
        resumed=resumed,
        errors=errors,
        peak_processes=watch.peak_processes,
        peak_pss_mib=watch.peak_pss_mib,
        seconds=time.monotonic() - started,
    )


def _pids() -> Sequence[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def _is_raylet(command: bytes, ray_dir: bytes) -> bool:
    return command.split(b"\0")[0].endswith(b"/raylet") and ray_dir in command


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _pss_mib(pid: int) -> float:
    for line in _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
