"""What a client of a memory campaign does, and the journal that it keeps of what it was told.

Every value is written once: no two steps have the same one, so a value in the file tells which step put it there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perdure.actors.testing import CallTools, Rule, Say, Script
from perdure.storage.memory_records import MemoryId, VersionId

from .effect_log import append_line, read_lines

Action = Literal["remember", "forget", "turn"]
Place = tuple[str | None, str]
"""A contact, or None for agent-wide, and a key."""

OWN_KEYS = 6
"""Of each client, half of them of its own contact; nobody else writes them."""
SHARED_KEYS = 4
"""Agent-wide, written by all clients."""
TURN_KEYS = 3
TURNS = 80
"""Memories that the scripted model can be made to write, in each conversation once."""
WEIGHTS: dict[Action | Literal["shared"], int] = {"remember": 64, "shared": 12, "forget": 12, "turn": 12}

_THINGS = ("comet", "heron", "violin", "glacier", "lantern", "orchid", "tram", "pepper", "kite", "anvil")
_VERBS = ("crossed", "circled", "passed", "reached", "left", "surrounded", "brushed", "met")
_PLACES = ("harbour", "library", "orchard", "market", "tower", "quarry", "garden", "station")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that a client wants remembered or forgotten, and what became of it."""

    step_id: str
    """The write's id, or the turn's."""
    action: Action
    contact: str | None
    key: str
    value: str | None
    """None: what is there is to be forgotten."""
    begun_at_ns: int = 0
    """`time.monotonic_ns`, which all processes of a machine share."""
    acked_at_ns: int | None = None
    """None: nobody was told that it is done."""
    version: VersionId | None = None
    """What a `remember` was told."""

    @property
    def place(self) -> Place:
        """Where it writes."""
        return self.contact, self.key


def note_step(journal: Path, step: Step) -> None:
    """Append what is known of a step; one that is acknowledged is on disk on return."""
    version = None if step.version is None else [step.version.memory_id, step.version.version]
    line = [step.step_id, step.action, step.contact, step.key, step.value, step.begun_at_ns, step.acked_at_ns, version]
    append_line(journal, json.dumps(line), sync=step.acked_at_ns is not None)


def read_steps(journals: Sequence[Path]) -> list[Step]:
    """The steps of all clients, each as it was noted last."""
    steps: dict[str, Step] = {}
    for journal in journals:
        for line in read_lines(journal):
            step_id, action, contact, key, value, begun_at_ns, acked_at_ns, version = json.loads(line)
            steps[step_id] = Step(
                step_id=step_id,
                action=action,
                contact=contact,
                key=key,
                value=value,
                begun_at_ns=begun_at_ns,
                acked_at_ns=acked_at_ns,
                version=None if version is None else VersionId(memory_id=MemoryId(version[0]), version=version[1]),
            )
    return list(steps.values())


def planned_steps(seed: int, client: int) -> Iterator[Step]:
    """What a client does, one after the other, without end."""
    chance = random.Random(f"{seed}-memories-{client}")
    contact = contact_of(client)
    own: list[Place] = [(contact if number % 2 else None, f"own.{client}.{number}") for number in range(OWN_KEYS)]
    turns = iter(range(TURNS))
    number = 0
    while True:
        name = f"w{client}x{number}"
        number += 1
        action = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        place = chance.choice(own)
        if action == "shared":
            action, place = "remember", (None, f"shared.{chance.randrange(SHARED_KEYS)}")
        if action == "turn" and (turn := next(turns, None)) is not None:
            key, value = turn_memory(turn)
            yield Step(step_id=f"{turn_mark(turn)}{name}", action="turn", contact=contact, key=key, value=value)
            continue
        step = Step(step_id=name, action="remember", contact=place[0], key=place[1], value=_value(chance, name))
        yield replace(step, action="forget", value=None) if action == "forget" else step


def contact_of(client: int) -> str:
    """The contact that a client speaks for."""
    return f"campaign:{client}"


def turn_memory(turn: int) -> tuple[str, str]:
    """Key and value that the scripted model remembers in a turn."""
    return f"turn.{turn % TURN_KEYS}", _value(random.Random(turn), f"t{turn:02}")


def turn_mark(turn: int) -> str:
    """What a message has to contain to make the scripted model remember that."""
    return f"memory-{turn:02};"


def memory_rules() -> tuple[Rule, ...]:
    """The part of a scripted model that remembers."""
    rules = []
    for turn in range(TURNS):
        key, value = turn_memory(turn)
        call = CallTools((("remember", {"key": key, "value": value}),))
        rules.append(Rule(turn_mark(turn), (call, Say("{result}"))))
    return tuple(rules)


def memory_script() -> Script:
    """A model that does nothing else."""
    return Script(memory_rules())


def unique_word(value: str) -> str:
    """The word that no other value has, but for those of other contacts' turns."""
    return value.split()[-3]


def _value(chance: random.Random, name: str) -> str:
    """A sentence that has nothing to do with any other one: none replaces another by what it says."""
    return f"A {chance.choice(_THINGS)} {chance.choice(_VERBS)} the {chance.choice(_PLACES)}, as note {name} has it"
