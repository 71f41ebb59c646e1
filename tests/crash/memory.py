"""`python -m tests.crash.memory --kills N --seed S`: kills the owners of memories, and proves what survives.

Two driver processes of four threads each remember, overwrite and forget under ids of their own choice, some of it
through a model's tool, and look whether they are believed, while the processes of memories, of both indexes and of
conversations are killed at named fault points and at random instants. Each thread keeps a journal of what it was
told, on disk before its next call. Then the indexes have a minute to agree with the file, recall and both indexes
are asked for what was replaced, and the journals are held against the file.

The last line is JSON; the exit status is 1 when a promise was broken, and 2 when the campaign came to a standstill
before it had killed as often as wanted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.actors import connect
from perdure.actors.host_address import wait_until_unserved
from perdure.storage.fault_points import MEMORY_FAULT_POINTS

from .journal import Count
from .killer import KillerOfMemories, table
from .memory_attack import AGREE_S, MemoryAttack, MemoryOutcome
from .place import CampaignPlace, environment_of_actors

COUNTS: Sequence[Count] = (
    "acked_memories_lost",
    "duplicates",
    "stale_found",
    "not_found",
    "index_differences",
    "unopenable",
)
"""`not_found`: recall lacked what was just acknowledged, and named no channel that could not answer."""
SABOTAGES = {"early-ack": "early-memory-ack"}
"""By name: what is broken inside the actors. Only the memory process is killed then, at random instants."""
SABOTAGED_AGREE_S = 2.0
SHOWN_VIOLATIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for."""

    kills: int
    seed: int
    sabotage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a campaign did and found."""

    memories: MemoryOutcome
    hits: Counter[str]
    signals: Counter[str]

    @property
    def result(self) -> dict[str, Any]:
        """The last line."""
        broken = Counter(violation.count for violation in self.memories.violations)
        return {
            "kills": self.hits.total() + self.signals.total(),
            "memories": self.memories.acknowledged.total(),
            "fault_points_hit": [point for point in MEMORY_FAULT_POINTS if self.hits[point]],
            **{count: broken[count] for count in COUNTS},
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit status."""
    options = _options(arguments)
    place = CampaignPlace(Path(tempfile.mkdtemp(prefix="pm-")))
    print(f"campaign of {options.kills} kills, seed {options.seed}, in {place.root}", flush=True)
    keeps_files = False
    try:
        outcome = run(options, place)
        result = outcome.result
        is_broken = any(result[count] for count in COUNTS)
        keeps_files = is_broken and options.sabotage is None
    finally:
        if not keeps_files:
            shutil.rmtree(place.root, ignore_errors=True)
    _report(outcome, place.root if keeps_files else None)
    print(json.dumps(result), flush=True)
    if is_broken:
        return 1
    return 0 if result["kills"] >= options.kills else 2


def run(options: Options, place: CampaignPlace) -> Outcome:
    """Attack, then look."""
    started = time.monotonic()
    settings = {"ray": {"temp_dir": str(place.ray)}}
    with environment_of_actors(place, SABOTAGES.get(options.sabotage or "")):
        runtime = connect(place.data, settings=settings)
    with runtime:
        attack = MemoryAttack(runtime, place, settings, options.seed)
        killer = KillerOfMemories(options.kills, options.seed, runtime, place, spares_others=bool(options.sabotage))
        killer.start()
        try:
            killer.join()
        finally:
            print(f"attack over after {time.monotonic() - started:.0f} s", flush=True)
            memories = attack.end(SABOTAGED_AGREE_S if options.sabotage else AGREE_S)
    wait_until_unserved(place.data / "run")
    attack.check_file(memories)
    print(f"all checked after {time.monotonic() - started:.0f} s", flush=True)
    return Outcome(memories=memories, hits=killer.hits, signals=killer.signals)


def _report(outcome: Outcome, kept: Path | None) -> None:
    print("kills:")
    print(*table(outcome.hits, outcome.signals, MEMORY_FAULT_POINTS), sep="\n")
    print(*outcome.memories.lines(), sep="\n")
    found = list(dict.fromkeys(f"  {each.count}: {each.text}" for each in outcome.memories.violations))
    print(*found[:SHOWN_VIOLATIONS], sep="\n")
    if len(found) > SHOWN_VIOLATIONS:
        print(f"  and {len(found) - SHOWN_VIOLATIONS} more")
    if kept is not None:
        print(f"the files are kept in {kept}")


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.memory", description=__doc__)
    parser.add_argument("--kills", type=int, required=True, help="how many processes to kill")
    parser.add_argument("--seed", type=int, required=True, help="chooses steps, kills and their instants")
    parser.add_argument("--sabotage", choices=sorted(SABOTAGES), help="break Perdure, to see that it is noticed")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
