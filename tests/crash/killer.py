"""The killer of a campaign: SIGKILLs at named fault points and at random instants."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.actors import Runtime
from perdure.actors.live_marks import live_conversations, live_folder
from perdure.actors.placement import DIRECTORY, KEYWORD_INDEX, MEMORY, VECTOR_INDEX, models_name
from perdure.storage.errors import PerdureError
from perdure.storage.fault_points import FAULT_POINTS, MEMORY_FAULT_POINTS

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
POINTS_WEIGHT = 56
"""Of all fault points that turns pass."""
MEMORY_POINTS_WEIGHT = 6
LINES_BETWEEN_KILLS = 12
LONGEST_REST_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A kind of process that is killed from outside."""

    weight: int
    """How often, beside the fault points and the others."""
    pid: Callable[[random.Random], int]
    """One of them; 0 while there is none."""
    longest_delay_s: float = 0.0
    """Before the kill: it hits the middle of whatever began meanwhile."""


class Killer(threading.Thread):
    """Kills until it has killed as often as wanted, then sets `stop`."""

    def __init__(
        self,
        wanted: int,
        seed: int,
        place: CampaignPlace,
        stop: threading.Event,
        points: Sequence[str],
        points_weight: int,
        victims: Mapping[str, Victim],
    ) -> None:
        super().__init__(name="killer", daemon=True)
        self._wanted = wanted
        self._chance = random.Random(f"{seed}-killer")
        self.place = place
        self._stop_all = stop
        self._points = points
        self._points_weight = points_weight
        self._victims = victims
        self._due = deque(points)
        self._chance.shuffle(self._due)
        self.signals: Counter[str] = Counter()
        """Processes killed from outside, by kind."""

    @property
    def hits(self) -> Counter[str]:
        """Processes that died at a fault point, by point."""
        return Counter(read_lines(self.place.faults / "hits.log"))

    @property
    def kills(self) -> int:
        """All that really happened."""
        return self.hits.total() + self.signals.total()

    def run(self) -> None:
        """Kill."""
        weights = [self._points_weight, *(victim.weight for victim in self._victims.values())]
        last_kill, done = time.monotonic(), 0
        while done < self._wanted and time.monotonic() - last_kill < STANDSTILL_S:
            if self.is_anybody_spared():
                time.sleep(0.1)
                continue
            [chosen] = self._chance.choices([None, *self._victims], weights)
            if chosen is None:
                self._at_fault_point()
            else:
                self._signal(chosen, self._victims[chosen])
            if self.kills > done:
                last_kill, done = time.monotonic(), self.kills
            self.rest()
        self._disarm()
        self._stop_all.set()

    def rest(self) -> None:
        """Wait for the next kill."""
        time.sleep(self._chance.uniform(0.0, LONGEST_PAUSE_S))

    def is_anybody_spared(self) -> bool:
        """Is something under way that no kill may hit?"""
        return False

    def armed(self, point: str) -> None:
        """A fault point is armed: whoever passes it dies."""

    def _at_fault_point(self) -> None:
        point = self._due.popleft()
        before = self.hits[point]
        (self.place.faults / point).touch()
        self.armed(point)
        limit = time.monotonic() + PATIENCE_S
        while self.hits[point] == before and time.monotonic() < limit and not self.is_anybody_spared():
            time.sleep(LOOK_S)
        self._disarm()
        if self.hits[point] > before:
            self._due.append(point)
        else:
            self._due.insert(3, point)

    def _signal(self, kind: str, victim: Victim) -> None:
        pid = victim.pid(self._chance)
        if victim.longest_delay_s:
            time.sleep(self._chance.uniform(0.0, victim.longest_delay_s))
        if is_running(pid) and not self.is_anybody_spared():
            os.kill(pid, signal.SIGKILL)
            self.signals[kind] += 1

    def _disarm(self) -> None:
        for point in self._points:
            (self.place.faults / point).unlink(missing_ok=True)


class KillerOfTurns(Killer):
    """Kills what takes part in turns, but no turn so often that it ends as failed."""

    def __init__(self, wanted: int, seed: int, board: Board, place: CampaignPlace, *, with_memory: bool) -> None:
        runtime = board.agent.runtime
        victims = {
            "conversation": Victim(weight=29, pid=lambda chance: _pid_at_work(board, chance), longest_delay_s=0.7),
            "models": Victim(weight=7, pid=lambda _: pid_of(runtime, models_name(0))),
            "directory": Victim(weight=8, pid=lambda _: pid_of(runtime, DIRECTORY)),
        }
        points = FAULT_POINTS + (MEMORY_FAULT_POINTS if with_memory else ())
        if with_memory:
            victims |= owners_of_memories(runtime)
        super().__init__(wanted, seed, place, board.stop, points, POINTS_WEIGHT, victims)
        self._board = board

    def is_anybody_spared(self) -> bool:
        """Has a turn that is in flight died often enough?"""
        attempts = read_evidence(self.place.witness).attempts
        return any(attempts.get(turn_id, 0) > DEATHS_ALLOWED for turn_id, _ in self._board.turns_in_flight())

    def armed(self, point: str) -> None:
        """A new conversation is wanted where only that passes the point."""
        if point.startswith("migration."):
            self._board.is_new_wanted.set()


class KillerOfMemories(Killer):
    """Kills what takes part in memories, once the clients have got on a little since the last kill."""

    def __init__(
        self, wanted: int, seed: int, runtime: Runtime, place: CampaignPlace, *, spares_others: bool = False
    ) -> None:
        """Begin; with `spares_others` it kills the memory process only, and at no fault point."""
        owners = owners_of_memories(runtime)
        conversation = Victim(weight=4, pid=lambda chance: _live_conversation(place, chance), longest_delay_s=0.3)
        super().__init__(
            wanted,
            seed,
            place,
            threading.Event(),
            points=MEMORY_FAULT_POINTS,
            points_weight=0 if spares_others else MEMORY_POINTS_WEIGHT,
            victims={"memory": owners["memory"]} if spares_others else {**owners, "conversation": conversation},
        )
        self._noted = 0

    def run(self) -> None:
        """Kill, once the clients have begun."""
        self.rest()
        super().run()

    def rest(self) -> None:
        """Wait until so many lines have come to the clients' journals, or nothing comes for long."""
        limit = time.monotonic() + LONGEST_REST_S
        while (noted := lines_of_journals(self.place)) < self._noted + LINES_BETWEEN_KILLS:
            if time.monotonic() > limit:
                break
            time.sleep(LOOK_S)
        self._noted = noted
        super().rest()


def lines_of_journals(place: CampaignPlace) -> int:
    """How much the clients have noted."""
    return sum(journal.read_bytes().count(b"\n") for journal in place.journals)


def owners_of_memories(runtime: Runtime) -> dict[str, Victim]:
    """The processes that own memories and their indexes."""
    return {
        "memory": Victim(weight=10, pid=lambda _: pid_of(runtime, MEMORY), longest_delay_s=0.3),
        "vector index": Victim(weight=5, pid=lambda _: pid_of(runtime, VECTOR_INDEX), longest_delay_s=0.3),
        "keyword index": Victim(weight=5, pid=lambda _: pid_of(runtime, KEYWORD_INDEX), longest_delay_s=0.3),
    }


def _live_conversation(place: CampaignPlace, chance: random.Random) -> int:
    live = live_conversations(live_folder(place.data))
    return chance.choice(live).pid if live else 0


def pid_of(runtime: Runtime, actor: str) -> int:
    """A singleton's process; 0 while it has none."""
    import ray
    from ray.exceptions import RayError

    try:
        handle: Any = ray.get_actor(actor, namespace=runtime.place.namespace)
        return int(ray.get(handle.pid.remote(), timeout=5.0))
    except (RayError, ValueError):
        return 0


def _pid_at_work(board: Board, chance: random.Random) -> int:
    in_flight = board.turns_in_flight()
    if not in_flight:
        return 0
    try:
        return chance.choice(in_flight)[1].chat.inspect(timeout_s=5.0).pid
    except PerdureError:  # just dead, or busy starting
        return 0


def is_running(pid: int) -> bool:
    """Is it a process that is alive, and no zombie?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace") if pid else ""
    except FileNotFoundError:
        return False
    return bool(stat) and stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def table(hits: Counter[str], signals: Counter[str], points: Sequence[str]) -> Sequence[str]:
    """How often each fault point was hit, and who else was killed, as lines."""
    rows = [(point, hits[point]) for point in points]
    rows += [(f"SIGKILL of a {kind} process", count) for kind, count in sorted(signals.items())]
    return [f"  {name:<36}{count:>5}" for name, count in rows]
