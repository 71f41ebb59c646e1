"""`python -m tests.crash.passivation --passivations N`: conversations come and go under load and kills, and nothing
is lost, done twice, or held by two processes at once.

Two driver processes of 8 threads each send turns to the same conversations, which passivate after a second without
use, or beyond a small cap; for every ten passivations one conversation's process is killed. Counted as a passivation
is a process whose last word in the log of openings is that it let go of its file: it ended in order, whether it was
idle or beyond the cap. A killed one has no such line. At the end the files are read, and every turn is repeated.

With `--open COUNT` it opens so many conversations under the cap instead, asks all of them again, and tells how many
processes and how much memory that took at most.

The last line is JSON; the exit status is 1 when a promise was broken, and 2 when the campaign came to a standstill
before there were as many passivations as wanted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.actors import Runtime, connect
from perdure.actors.host_address import wait_until_unserved
from perdure.actors.live_marks import live_conversations, live_folder
from perdure.storage.errors import StorageError
from perdure.storage.records import AgentName

from .checker import Checker
from .journal import Journal, Violation
from .many_conversations import open_many
from .openings import Holding, note_moment, passivations, process_name, read_holdings, second_openers
from .place import CampaignPlace, environment_of_actors
from .repeats import repeat_all
from .stored import StoredConversation, read_conversation
from .turn_senders import AGENT, Senders, Sent, model, send_until_stopped
from .witness import Evidence

BROKEN = ("errors", "second_openers", "acked_lost", "duplicates")
DRIVERS = 2
THREADS = 8
"""Of each driver."""
IDLE_S = 1.0
PASSIVATIONS_PER_KILL = 10
LOOK_S = 0.3
STANDSTILL_S = 120.0
"""Without a passivation for so long, the campaign is over."""
SHOWN_VIOLATIONS = 40
SABOTAGES = {"early-ack": "early-ack", "two-openers": "drop-lock"}
"""By name: what is broken inside the actors. For two openers it takes a second process, too (`intruder.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for."""

    passivations: int
    open: int
    seed: int
    conversations: int
    cap: int
    sabotage: str | None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a campaign did and found."""

    sent: Sequence[Sent]
    holdings: Sequence[Holding]
    second_openers: Sequence[str]
    kills: int
    violations: list[Violation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def result(self) -> dict[str, int]:
        """The last line."""
        broken = Counter(violation.count for violation in self.violations)
        return {
            "passivations": passivations(self.holdings),
            "calls": sum(sent.calls for sent in self.sent),
            "errors": len(self.errors) + broken["unopenable"],
            "second_openers": len(self.second_openers),
            "acked_lost": broken["acked_lost"],
            "duplicates": broken["duplicates"] + broken["finished_tools_rerun"],
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit status."""
    options = _options(arguments)
    place = CampaignPlace(Path(tempfile.mkdtemp(prefix="pp-")))
    if options.open:
        try:
            return _open_many(options, place)
        finally:
            shutil.rmtree(place.root, ignore_errors=True)
    print(f"campaign of {options.passivations} passivations, seed {options.seed}, in {place.root}", flush=True)
    keeps_files = False
    try:
        outcome = run(options, place)
        is_broken = any(outcome.result[count] for count in BROKEN)
        keeps_files = is_broken and options.sabotage is None
    finally:
        if not keeps_files:
            shutil.rmtree(place.root, ignore_errors=True)
    _report(outcome, place.root if keeps_files else None)
    print(json.dumps(outcome.result), flush=True)
    if is_broken:
        return 1
    return 0 if outcome.result["passivations"] >= options.passivations else 2


def _open_many(options: Options, place: CampaignPlace) -> int:
    settings = {"ray": {"temp_dir": str(place.ray)}, "conversations": {"live_cap": options.cap}}
    with connect(place.data, settings=settings) as runtime:
        agent = runtime.agent(AGENT, model=model())
        opened = open_many(agent, options.open, place.ray, resume=options.open)
    wait_until_unserved(place.data / "run")
    print(f"{options.open} conversations under a cap of {options.cap}: {opened.seconds:.0f} s")
    print(*(f"  error: {error}" for error in opened.errors[:SHOWN_VIOLATIONS]), sep="\n")
    print(json.dumps(opened.result), flush=True)
    return 0 if opened.replied == opened.resumed == options.open and not opened.errors else 1


def run(options: Options, place: CampaignPlace) -> Outcome:
    """Attack, then look."""
    started = time.monotonic()
    settings = {
        "ray": {"temp_dir": str(place.ray)},
        "conversations": {"passivate_after_s": IDLE_S, "live_cap": options.cap},
    }
    with _runtime(options, place, settings) as runtime:
        runtime.agent(AGENT, model=model())
        with ProcessPoolExecutor(DRIVERS, mp_context=multiprocessing.get_context("spawn")) as drivers:
            running = [
                drivers.submit(
                    send_until_stopped,
                    Senders(
                        place=place,
                        settings=settings,
                        seed=options.seed,
                        conversations=options.conversations,
                        first_client=driver * THREADS,
                        threads=THREADS,
                    ),
                )
                for driver in range(DRIVERS)
            ]
            try:
                kills = _kill_meanwhile(options, place, running)
            finally:
                place.stop.touch()
            outcome = _look_at_openings(place, kills, [each.result() for each in running])
    wait_until_unserved(place.data / "run")
    print(f"attack over after {time.monotonic() - started:.0f} s", flush=True)
    _check(place, settings, outcome)
    print(f"all checked after {time.monotonic() - started:.0f} s", flush=True)
    return outcome


@contextmanager
def _runtime(options: Options, place: CampaignPlace, settings: Mapping[str, Any]) -> Iterator[Runtime]:
    """The runtime under attack, whose actors keep the log of openings."""
    intruder = None
    with environment_of_actors(place, SABOTAGES.get(options.sabotage or "")):
        runtime = connect(place.data, settings=settings)
        if options.sabotage == "two-openers":
            intruder = subprocess.Popen([sys.executable, "-m", "tests.crash.intruder", str(options.conversations)])
    try:
        with runtime:
            yield runtime
    finally:
        if intruder is not None:
            intruder.wait(30)


def _kill_meanwhile(options: Options, place: CampaignPlace, running: Sequence[Future[Sent]]) -> int:
    """Kill now and then, until there were as many passivations as wanted; how often."""
    chance = random.Random(f"{options.seed}-killer")
    kills, done, last_at = 0, 0, time.monotonic()
    while done < options.passivations and time.monotonic() - last_at < STANDSTILL_S:
        if any(each.done() for each in running):
            break
        time.sleep(LOOK_S)
        before, done = done, passivations(read_holdings(place.openings))
        if done > before:
            last_at = time.monotonic()
        if kills < done // PASSIVATIONS_PER_KILL:
            kills += _kill_one(place, chance)
    return kills


def _kill_one(place: CampaignPlace, chance: random.Random) -> bool:
    live = live_conversations(live_folder(place.data))
    if not live:
        return False
    time.sleep(chance.uniform(0.0, LOOK_S))
    victim = chance.choice(live)
    process = process_name(victim.pid)
    if not process:
        return False
    note_moment(place.openings, "killed", victim.actor_name, process, 0)
    try:
        os.kill(victim.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _look_at_openings(place: CampaignPlace, kills: int, sent: Sequence[Sent]) -> Outcome:
    """Who held what, while those that still live can be asked after."""
    holdings = read_holdings(place.openings)
    now_ns = time.monotonic_ns()
    alive = {
        holding.process: now_ns
        for holding in holdings
        if holding.ending == "unknown" and process_name(int(holding.process.partition(".")[0])) == holding.process
    }
    return Outcome(sent=sent, holdings=holdings, second_openers=list(second_openers(holdings, alive)), kills=kills)


def _check(place: CampaignPlace, settings: Mapping[str, Any], outcome: Outcome) -> None:
    """Hold what the drivers were told against the files, then repeat every turn and read the files once more."""
    journal = Journal(turns=[turn for sent in outcome.sent for turn in sent.turns])
    outcome.errors += [error for sent in outcome.sent for error in sent.errors]
    found = outcome.violations
    found += [violation for sent in outcome.sent for violation in sent.violations]
    before = _read(place, journal, found)
    found += Checker(journal=journal, conversations=before, effects=[], evidence=Evidence()).violations()
    with connect(place.data, settings=settings) as again:
        found += repeat_all(again.agent(AGENT), journal.turns)
    wait_until_unserved(place.data / "run")
    after = _read(place, journal, found)
    found += [
        Violation(count="duplicates", text=f"{conversation_id}: repeats of ended turns changed what is stored")
        for conversation_id, stored in before.items()
        if conversation_id in after and after[conversation_id] != stored
    ]


def _read(place: CampaignPlace, journal: Journal, found: list[Violation]) -> dict[str, StoredConversation]:
    turn_ids: dict[str, list[str]] = {}
    for turn in journal.turns:
        turn_ids.setdefault(turn.conversation_id, []).append(turn.turn_id)
    read: dict[str, StoredConversation] = {}
    for conversation_id, ids in turn_ids.items():
        try:
            stored = read_conversation(place.data, AgentName(AGENT), conversation_id, ids)
        except StorageError as error:
            found.append(Violation(count="unopenable", text=str(error)))
        else:
            if stored is not None:
                read[conversation_id] = stored
    return read


def _report(outcome: Outcome, kept: Path | None) -> None:
    turns = [turn for sent in outcome.sent for turn in sent.turns]
    endings = Counter(holding.ending for holding in outcome.holdings)
    print(f"kills: {outcome.kills}; files opened {len(outcome.holdings)} times, endings: {dict(endings)}")
    print(f"turns acknowledged: {dict(Counter(turn.kind for turn in turns if turn.reply is not None))}")
    problems = [
        *(f"error: {error}" for error in outcome.errors),
        *(f"second opener: {text}" for text in outcome.second_openers),
        *(f"{violation.count}: {violation.text}" for violation in outcome.violations),
    ]
    print(*(f"  {problem}" for problem in problems[:SHOWN_VIOLATIONS]), sep="\n")
    if len(problems) > SHOWN_VIOLATIONS:
        print(f"  and {len(problems) - SHOWN_VIOLATIONS} more")
    if kept is not None:
        print(f"the files are kept in {kept}")


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.passivation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--passivations", type=int, default=0, help="how many processes are to end in order")
    what.add_argument("--open", type=int, default=0, help="how many conversations to open instead, without kills")
    parser.add_argument("--seed", type=int, default=0, help="chooses turns, pauses and kills")
    parser.add_argument("--conversations", type=int, default=16, help="shared by all threads")
    parser.add_argument("--cap", type=int, default=4, help="live conversations beyond which the oldest end")
    parser.add_argument("--sabotage", choices=sorted(SABOTAGES), help="break Perdure, to see that it is noticed")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
