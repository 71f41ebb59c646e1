"""A driver process of a memory campaign: threads that remember and forget, and look whether they are believed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from perdure.actors import Agent, connect
from perdure.actors.client.memories import Memories
from perdure.jobs.memory_requests import Remembered
from perdure.storage.errors import PerdureError, TurnFailedError
from perdure.storage.memory_records import VersionId

from .clients import GaveUpError
from .journal import Count, Violation
from .memory_steps import Place, Step, contact_of, note_step, planned_steps
from .place import CampaignPlace

Answer = TypeVar("Answer")

AGENT = "memories"
CALL_TIMEOUT_S = 120.0
GIVE_UP_AFTER_S = 180.0
LONGEST_PAUSE_S = 0.25
"""Between two steps of a thread."""
LOOKED_AT = 0.25
"""Part of the steps after which the client asks for what it wrote."""
SEARCHED = 0.1
REPEATED = 0.08
"""Part of the steps after which an earlier write is repeated under its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """The threads of one driver process."""

    place: CampaignPlace
    settings: Mapping[str, Any]
    seed: int
    first_client: int
    """Number of its first thread; no other driver has the same."""
    threads: int


@dataclass(slots=True, kw_only=True)
class Written:
    """What a driver process met, as it crosses to the campaign's."""

    violations: list[Violation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """By type: errors that a client got over by repeating the call."""
    looks: int = 0
    repeats: int = 0


def write_until_stopped(writers: Writers) -> list[Written]:
    """Write until the campaign's `stop` file is there."""
    with connect(writers.place.data, settings=writers.settings) as runtime:
        agent = runtime.agent(AGENT)
        numbers = range(writers.first_client, writers.first_client + writers.threads)
        clients = [_Client(number, writers, agent) for number in numbers]
        with ThreadPoolExecutor(writers.threads) as pool:
            return list(pool.map(_Client.run, clients))


class _Client:
    def __init__(self, number: int, writers: Writers, agent: Agent) -> None:
        self._steps = planned_steps(writers.seed, number)
        self._chance = random.Random(f"{writers.seed}-memory-client-{number}")
        self._place = writers.place
        self._journal: Path = writers.place.journal(f"memory-client-{number}")
        self._agent = agent
        self._number = number
        self._current: dict[Place, str | None] = {}
        """What stands under the places that only this client writes."""
        self._former: dict[Place, str] = {}
        self._done: list[tuple[Step, Remembered]] = []
        self._met = Written()

    def run(self) -> Written:
        """Step after step."""
        for planned in self._steps:
            if self._place.stop.exists():
                break
            step = replace(planned, begun_at_ns=time.monotonic_ns())
            note_step(self._journal, step)
            try:
                version = self._do(step)
            except TurnFailedError as error:
                self._met.errors.append(type(error).__name__)  # its process died three times in it
            except (PerdureError, GaveUpError) as error:
                self._violated("unopenable", f"{step.step_id}: {type(error).__name__}: {error}")
            else:
                note_step(self._journal, replace(step, acked_at_ns=time.monotonic_ns(), version=version))
                self._note(step)
                self._look(step)
            time.sleep(self._chance.uniform(0.0, LONGEST_PAUSE_S))
        return self._met

    def _do(self, step: Step) -> VersionId | None:
        if step.action == "forget":
            self._until_answered(lambda: self._memories(step).forget(step.key, timeout_s=CALL_TIMEOUT_S))
            return None
        if step.action == "turn":
            chat = self._until_answered(
                lambda: self._agent.conversation(
                    f"memories-{self._number}", contact=step.contact, timeout_s=CALL_TIMEOUT_S
                )
            )
            reply = self._until_answered(
                lambda: chat.send(step.step_id, turn_id=step.step_id, timeout_s=CALL_TIMEOUT_S)
            )
            if not reply.text.startswith("Remembered"):
                raise GaveUpError(f"the model's tool said {reply.text!r}")
            return None
        done = self._remember(step)
        self._done.append((step, done))
        return done.version_id

    def _remember(self, step: Step) -> Remembered:
        assert step.value is not None
        value = step.value
        return self._until_answered(
            lambda: self._memories(step).remember(step.key, value, write_id=step.step_id, timeout_s=CALL_TIMEOUT_S)
        )

    def _note(self, step: Step) -> None:
        former = self._current.get(step.place)
        if former is not None:
            self._former[step.place] = former
        self._current[step.place] = step.value

    def _look(self, step: Step) -> None:
        """Does memory say what this client was told?"""
        if step.key.startswith("shared"):
            return
        if self._chance.random() < LOOKED_AT:
            self._met.looks += 1
            found = self._until_answered(lambda: self._memories(step).recall(step.key, timeout_s=CALL_TIMEOUT_S))
            if [memory.value for memory in found] != ([] if step.value is None else [step.value]):
                self._violated("acked_memories_lost", f"right after {step}: found {found}")
        if self._chance.random() < SEARCHED:
            self._search(step)
        if self._chance.random() < REPEATED and self._done:
            self._repeat()

    def _search(self, step: Step) -> None:
        self._met.looks += 1
        former = self._former.get(step.place)
        if former is not None and former in self._found(step, former)[0]:
            self._violated("stale_found", f"after {step}: {former!r}")
        if step.action != "remember" or self._done[-1][1].not_yet_in:
            return
        assert step.value is not None
        values, is_whole = self._found(step, step.value)
        if is_whole and step.value not in values:
            self._violated("not_found", f"{step}, acknowledged and told to all indexes; recall found {values}")

    def _found(self, step: Step, query: str) -> tuple[list[str], bool]:
        recalled = self._until_answered(
            lambda: self._memories(step).fused_recall(query, fill=False, timeout_s=CALL_TIMEOUT_S)
        )
        return [hit.memory.value for hit in recalled.hits], not recalled.unanswered

    def _repeat(self) -> None:
        """Send a write again that was acknowledged, perhaps long ago: it changes nothing and is told the same."""
        step, first = self._chance.choice(self._done)
        self._met.repeats += 1
        again = self._remember(step)
        if (again.outcome, again.version_id) != (first.outcome, first.version_id):
            self._violated("duplicates", f"{step}, repeated: {first} became {again}")

    def _memories(self, step: Step) -> Memories:
        if step.contact is None:
            return self._agent.memories
        assert step.contact == contact_of(self._number)
        return self._agent.memories_of(step.contact)

    def _until_answered(self, attempt: Callable[[], Answer]) -> Answer:
        limit = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            try:
                return attempt()
            except PerdureError as error:
                if not error.retryable:
                    raise
                self._met.errors.append(type(error).__name__)
                if time.monotonic() > limit:
                    raise GaveUpError(f"no answer within {GIVE_UP_AFTER_S:.0f} s; at last {error}") from error
            time.sleep(self._chance.uniform(0.05, 0.3))

    def _violated(self, count: Count, text: str) -> None:
        self._met.violations.append(Violation(count=count, text=text))
