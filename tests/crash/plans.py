"""What the turns of a campaign do: plans that the scripted model and the drivers' own loops follow."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.actors.testing import CallTools, Pause, Rule, Say, Script

PLANS_WITH_NOTE = 24
PLANS_WITHOUT_NOTE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A tool call to be made."""

    tool: str
    pause_s: float

    @property
    def is_idempotent(self) -> bool:
        """May it be made twice?"""
        return self.tool == "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Two rounds of tool calls, and perhaps a line for the working notes, which stands in no other plan."""

    key: str
    """A message that contains it makes the model follow this plan."""
    rounds: tuple[tuple[PlannedCall, ...], ...]
    thinking_s: float
    """How long the model takes before its second round."""
    note: str | None


def plans(seed: int) -> Sequence[Plan]:
    """All plans of a campaign."""
    chance = random.Random(f"{seed}-plans")
    made = []
    for number in range(PLANS_WITH_NOTE + PLANS_WITHOUT_NOTE):
        key = f"plan-{number:02};"
        made.append(
            Plan(
                key=key,
                rounds=tuple(
                    tuple(
                        PlannedCall(
                            tool=chance.choice(("look", "reserve")), pause_s=round(chance.uniform(0.02, 0.3), 2)
                        )
                        for _ in range(chance.randint(1, 3))
                    )
                    for _ in range(2)
                ),
                thinking_s=chance.choice((0.0, 0.0, 0.1, 0.3)),
                note=f"noted by {key}" if number < PLANS_WITH_NOTE else None,
            )
        )
    return made


def script_of(made: Sequence[Plan]) -> Script:
    """The model that follows the plans."""
    return Script(tuple(Rule(plan.key, _steps(plan)) for plan in made))


def _asked(calls: Sequence[PlannedCall]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((call.tool, {"pause_s": call.pause_s}) for call in calls)


def _steps(plan: Plan) -> tuple[CallTools | Pause | Say, ...]:
    first, second = (_asked(calls) for calls in plan.rounds)
    if plan.note is not None:
        first += (("set_context", {"notes": plan.note, "mode": "append"}),)
    steps: list[CallTools | Pause | Say] = [CallTools(first, text="Let me see.")]
    if plan.thinking_s:
        steps.append(Pause(plan.thinking_s))
    return (*steps, CallTools(second), Say("Done, the last of it was {result}"))
