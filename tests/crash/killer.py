"""The killer of a campaign: SIGKILLs at named fault points and at random instants."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perdure.actors.placement import DIRECTORY, models_name
from perdure.storage.errors import PerdureError
from perdure.storage.fault_points import FAULT_POINTS

from .board import Board
from .effect_log import read_lines
from .place import CampaignPlace
from .witness import read_evidence

PATIENCE_S = 4.0
"""How long a fault point stays armed before another one has its turn."""
LOOK_S = 0.1
"""How often it looks whether an armed point has been hit."""
LONGEST_PAUSE_S = 0.6
"""Between two kills."""
DEATHS_ALLOWED = 2
"""A turn that has died so often is spared: once more, and it ends as failed, which other tests look at."""
STANDSTILL_S = 120.0
"""Without a kill for so long, the campaign is over."""
WEIGHTS = {"fault point": 56, "conversation": 29, "models": 7, "directory": 8}


class Killer(threading.Thread):
    """Kills until it has killed as often as wanted, then stops the clients."""

    def __init__(self, wanted: int, seed: int, board: Board, place: CampaignPlace) -> None:
        super().__init__(name="killer", daemon=True)
        self._wanted = wanted
        self._chance = random.Random(f"{seed}-killer")
        self._board = board
        self._place = place
        self._due = deque(FAULT_POINTS)
        self._chance.shuffle(self._due)
        self.signals: Counter[str] = Counter()
        """Processes killed from outside, by kind."""

    @property
    def hits(self) -> Counter[str]:
        """Processes that died at a fault point, by point."""
        return Counter(read_lines(self._place.faults / "hits.log"))

    @property
    def kills(self) -> int:
        """All that really happened."""
        return self.hits.total() + self.signals.total()

    def run(self) -> None:
        """Kill."""
        ways: dict[str, Callable[[], object]] = {
            "fault point": self._at_fault_point,
            "conversation": self._conversation,
            "models": lambda: self._signal("models", lambda: self._pid_of(models_name(0)), 0.0),
            "directory": lambda: self._signal("directory", lambda: self._pid_of(DIRECTORY), 0.0),
        }
        last_kill, done = time.monotonic(), 0
        while done < self._wanted and time.monotonic() - last_kill < STANDSTILL_S:
            if self._is_a_turn_to_be_spared():
                time.sleep(0.1)
                continue
            way = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            ways[way]()
            if self.kills > done:
                last_kill, done = time.monotonic(), self.kills
            time.sleep(self._chance.uniform(0.0, LONGEST_PAUSE_S))
        self._disarm()
        self._board.stop.set()

    def _at_fault_point(self) -> None:
        point = self._due.popleft()
        before = self.hits[point]
        (self._place.faults / point).touch()
        if point.startswith("migration."):
            self._board.is_new_wanted.set()
        limit = time.monotonic() + PATIENCE_S
        while self.hits[point] == before and time.monotonic() < limit and not self._is_a_turn_to_be_spared():
            time.sleep(LOOK_S)
        self._disarm()
        if self.hits[point] > before:
            self._due.append(point)
        else:
            self._due.insert(3, point)

    def _conversation(self) -> None:
        in_flight = self._board.turns_in_flight()
        if in_flight:
            chat = self._chance.choice(in_flight)[1].chat
            self._signal("conversation", lambda: chat.inspect(timeout_s=5.0).pid, self._chance.uniform(0.0, 0.7))

    def _signal(self, kind: str, find_pid: Callable[[], int], delay_s: float) -> None:
        try:
            pid = find_pid()
        except PerdureError:  # just dead, or busy starting
            return
        time.sleep(delay_s)
        if is_running(pid) and not self._is_a_turn_to_be_spared():
            os.kill(pid, signal.SIGKILL)
            self.signals[kind] += 1

    def _pid_of(self, actor: str) -> int:
        import ray
        from ray.exceptions import RayError

        try:
            handle: Any = ray.get_actor(actor, namespace=self._board.agent.runtime.place.namespace)
            return int(ray.get(handle.pid.remote(), timeout=5.0))
        except (RayError, ValueError):
            return 0  # no process bears this number

    def _is_a_turn_to_be_spared(self) -> bool:
        attempts = read_evidence(self._place.witness).attempts
        return any(attempts.get(turn_id, 0) > DEATHS_ALLOWED for turn_id, _ in self._board.turns_in_flight())

    def _disarm(self) -> None:
        for point in FAULT_POINTS:
            (self._place.faults / point).unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    """Is it a process that is alive, and no zombie?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace") if pid else ""
    except FileNotFoundError:
        return False
    return bool(stat) and stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def table(hits: Counter[str], signals: Counter[str]) -> Sequence[str]:
    """How often each fault point was hit, and who else was killed, as lines."""
    rows = [(point, hits[point]) for point in FAULT_POINTS]
    rows += [(f"SIGKILL of a {kind} process", count) for kind, count in sorted(signals.items())]
    return [f"  {name:<36}{count:>5}" for name, count in rows]
