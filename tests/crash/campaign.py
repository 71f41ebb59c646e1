"""`python -m tests.crash.campaign --kills N --seed S`: kills a running Perdure, and proves what survives.

Clients send turns with tools, and others write memories (`tests.crash.memory`), while processes are killed at named
fault points and at random instants. Then the indexes have to agree with the memories, the runtime is closed, and what
the clients were told is held against the files, the log of the tools, and the answers to repeats of every turn. The
last line is JSON; the exit status is 1 when a promise was broken, and 2
when the campaign came to a standstill before it had killed as often as wanted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.actors import Agent, connect
from perdure.actors.host_address import wait_until_unserved
from perdure.storage.errors import StorageError
from perdure.storage.fault_points import FAULT_POINTS, MEMORY_FAULT_POINTS

from .board import Board
from .checker import Checker
from .clients import GIVE_UP_AFTER_S, Client
from .effect_log import read_effects
from .journal import Count, Journal, Violation
from .killer import Killer, KillerOfTurns, table
from .memory_attack import MemoryAttack, MemoryOutcome
from .openings import passivations, read_holdings, second_openers
from .place import CampaignPlace, environment_of_actors
from .plans import plans, script_of
from .repeats import repeat_all
from .stored import StoredConversation, read_conversation, registered_conversations
from .tools import look, reserve
from .witness import read_evidence

COUNTS: Sequence[Count] = ("acked_lost", "duplicates", "finished_tools_rerun", "unopenable")
MEMORY_COUNTS: Sequence[Count] = ("acked_memories_lost", "stale_found", "not_found", "index_differences")
SABOTAGES = ("early-ack", "forget-result")
SHOWN_VIOLATIONS = 40
IDLE_S = 2.0
"""After which a conversation ends, in a campaign with a cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for."""

    kills: int
    seed: int
    conversations: int
    clients: int
    cap: int | None
    """Live conversations beyond which the oldest end; idle ones end then, too. None: none does."""
    memories: bool
    """Are memories written and their owners killed, too?"""
    sabotage: str | None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a campaign did and found."""

    journal: Journal
    memories: MemoryOutcome | None
    hits: Counter[str]
    signals: Counter[str]
    passivations: int
    violations: list[Violation]

    @property
    def points(self) -> Sequence[str]:
        """The fault points that could be hit."""
        return FAULT_POINTS if self.memories is None else FAULT_POINTS + MEMORY_FAULT_POINTS

    @property
    def result(self) -> dict[str, Any]:
        """The last line."""
        broken = Counter(violation.count for violation in self.violations)
        result: dict[str, Any] = {
            "kills": self.hits.total() + self.signals.total(),
            "turns": sum(turn.reply is not None for turn in self.journal.turns),
            "fault_points_hit": [point for point in self.points if self.hits[point]],
            "fault_points_missed": [point for point in self.points if not self.hits[point]],
            **{count: broken[count] for count in COUNTS},
        }
        if self.memories is not None:
            result |= {"memories": self.memories.acknowledged.total()}
            result |= {count: broken[count] for count in MEMORY_COUNTS}
        return result

    @property
    def is_broken(self) -> bool:
        """Was a promise?"""
        return bool(self.violations)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit status."""
    options = _options(arguments)
    place = CampaignPlace(Path(tempfile.mkdtemp(prefix="pc-")))
    print(f"campaign of {options.kills} kills, seed {options.seed}, in {place.root}", flush=True)
    keeps_files = False
    try:
        outcome = run(options, place)
        result = outcome.result
        keeps_files = outcome.is_broken and options.sabotage is None
    finally:
        if not keeps_files:
            shutil.rmtree(place.root, ignore_errors=True)
    _report(outcome, place.root if keeps_files else None)
    print(json.dumps(result), flush=True)
    if outcome.is_broken:
        return 1
    return 0 if result["kills"] >= options.kills else 2


def run(options: Options, place: CampaignPlace) -> Outcome:
    """Attack, then look."""
    started = time.monotonic()
    journal = Journal()
    conversations: dict[str, Any] = {"tidy_wal_kib": 4}
    if options.cap is not None:
        conversations |= {"live_cap": options.cap, "passivate_after_s": IDLE_S}
    settings = {
        "ray": {"temp_dir": str(place.ray)},
        "conversations": conversations,
        "turn": {"resume_after_s": 10.0},
    }
    planned = plans(options.seed)
    with environment_of_actors(place, options.sabotage):
        runtime = connect(place.data, settings=settings)
    with runtime:
        agent = runtime.agent("campaign", model=script_of(planned), tools=[look, reserve])
        board = Board(agent, planned, journal, options.conversations)
        killer = KillerOfTurns(options.kills, options.seed, board, place, with_memory=options.memories)
        attack = MemoryAttack(runtime, place, settings, options.seed) if options.memories else None
        try:
            _attack(board, killer, [Client(n, options.seed, board, place.effects) for n in range(options.clients)])
        finally:
            memories = None if attack is None else attack.end()
    wait_until_unserved(place.data / "run")
    if attack is not None and memories is not None:
        attack.check_file(memories)
    print(f"attack over after {time.monotonic() - started:.0f} s", flush=True)

    holdings = read_holdings(place.openings)
    ended = passivations(holdings)
    found = [*journal.violations, *(memories.violations if memories is not None else ())]
    found += [Violation(count="duplicates", text=text) for text in second_openers(holdings, {})]
    before, unopenable = _read(place, agent, board)
    found += unopenable
    found += Checker(
        journal=journal,
        conversations=before,
        effects=read_effects(place.effects),
        evidence=read_evidence(place.witness),
    ).violations()
    effects = len(read_effects(place.effects))
    with connect(place.data, settings=settings) as again:
        found += repeat_all(again.agent("campaign"), journal.turns)
    wait_until_unserved(place.data / "run")
    after, unopenable = _read(place, agent, board)
    found += unopenable
    if len(read_effects(place.effects)) != effects:
        found.append(Violation(count="finished_tools_rerun", text="repeats of ended turns ran tools"))
    found += [
        Violation(count="duplicates", text=f"{conversation_id}: repeats of ended turns changed what is stored")
        for conversation_id, stored in before.items()
        if conversation_id in after and after[conversation_id] != stored
    ]
    print(f"all checked after {time.monotonic() - started:.0f} s", flush=True)
    return Outcome(
        journal=journal,
        memories=memories,
        hits=killer.hits,
        signals=killer.signals,
        passivations=ended,
        violations=found,
    )


def _attack(board: Board, killer: Killer, clients: Sequence[Client]) -> None:
    for client in clients:
        client.start()
    killer.start()
    try:
        killer.join()
    finally:
        board.stop.set()
    for client in clients:
        client.join(GIVE_UP_AFTER_S + 60.0)
        if client.is_alive():
            board.journal.violated("unopenable", f"{client.name} still waits for an answer")


def _read(
    place: CampaignPlace, agent: Agent, board: Board
) -> tuple[dict[str, StoredConversation], Sequence[Violation]]:
    """Every conversation's file, and what cannot be opened."""
    read: dict[str, StoredConversation] = {}
    failed: list[Violation] = []
    turn_ids = {conversation_id: list[str]() for conversation_id in board.opened}
    for turn in board.journal.turns:
        turn_ids[turn.conversation_id].append(turn.turn_id)
    for conversation_id, ids in turn_ids.items():
        try:
            stored = read_conversation(place.data, agent.name, conversation_id, ids)
        except StorageError as error:
            failed.append(Violation(count="unopenable", text=str(error)))
        else:
            if stored is not None:
                read[conversation_id] = stored
    failed += _unregistered(place, agent, board)
    return read, failed


def _unregistered(place: CampaignPlace, agent: Agent, board: Board) -> Iterator[Violation]:
    """Conversations that were opened and that the directory does not know."""
    try:
        known = registered_conversations(place.data, agent.name)
    except StorageError as error:
        yield Violation(count="unopenable", text=str(error))
        return
    for conversation_id in board.registered:
        if conversation_id not in known:
            yield Violation(count="acked_lost", text=f"{conversation_id} is not in the directory")


def _report(outcome: Outcome, kept: Path | None) -> None:
    journal = outcome.journal
    print("kills:")
    print(*table(outcome.hits, outcome.signals, outcome.points), sep="\n")
    if outcome.memories is not None:
        print(*outcome.memories.lines(), sep="\n")
    print(f"conversations passivated: {outcome.passivations}")
    kinds = Counter(turn.kind for turn in journal.turns if turn.reply is not None)
    statuses = Counter(call.status for turn in journal.turns if turn.reply for call in turn.reply.tool_calls)
    resumed = sum(turn.reply is not None and turn.reply.resumed for turn in journal.turns)
    failed = [turn for turn in journal.turns if turn.failure is not None]
    print(f"turns acknowledged: {dict(kinds)}, resumed {resumed}, repeated at once {journal.repeats}")
    print(f"tool calls: {dict(statuses)}; lines of notes by clients: {len(journal.notes)}")
    print(f"turns that ended without a reply: {len(failed)}")
    print(f"errors that clients got over: {dict(journal.errors)}")
    for turn in failed[:SHOWN_VIOLATIONS]:
        print(f"  {turn.turn_id}: {turn.failure}")
    for violation in outcome.violations[:SHOWN_VIOLATIONS]:
        print(f"  {violation.count}: {violation.text}")
    if len(outcome.violations) > SHOWN_VIOLATIONS:
        print(f"  and {len(outcome.violations) - SHOWN_VIOLATIONS} more")
    if kept is not None:
        print(f"the files are kept in {kept}")


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, required=True, help="how many processes to kill")
    parser.add_argument("--seed", type=int, required=True, help="chooses plans, kills and their instants")
    parser.add_argument("--conversations", type=int, default=8, help="live at a time; they are replaced by new ones")
    parser.add_argument("--clients", type=int, default=4, help="threads that send turns")
    parser.add_argument("--cap", type=int, help="live conversations beyond which the oldest end, as idle ones then do")
    parser.add_argument(
        "--memories",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write memories, too, and kill their owners and indexes",
    )
    parser.add_argument("--sabotage", choices=SABOTAGES, help="break Perdure, to see that it is noticed")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
