"""Drivers that remember and forget while a campaign kills, and what has to be true afterwards."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from perdure.actors import Agent, Runtime
from perdure.actors.placement import index_actor, models_actor
from perdure.jobs.index_access import Search
from perdure.storage.errors import PerdureError, StorageError
from perdure.storage.index_scope import IndexScope
from perdure.storage.memory_keys import key_shown
from perdure.storage.memory_records import Memory
from perdure.storage.records import AgentName

from .journal import Violation
from .memory_checker import read_memories, violations
from .memory_steps import Step, memory_script, read_steps, unique_word
from .memory_writers import AGENT, Writers, Written, write_until_stopped
from .place import CampaignPlace

DRIVERS = 2
THREADS = 4
"""Of each driver."""
AGREE_S = 60.0
"""How long the indexes may take to agree with the file once nothing dies any more."""
WAIT_S = 120.0
STALE_LOOKED_FOR = 120
"""Values that were replaced or forgotten, drawn from all of them."""
LIKE_ITSELF = 0.995
"""A value's vector is that of itself; those of two different values are less alike."""


@dataclass(slots=True, kw_only=True)
class MemoryOutcome:
    """What the drivers did and what was found."""

    steps: Sequence[Step]
    met: Sequence[Written]
    violations: list[Violation] = field(default_factory=list)
    stale: int = 0
    """Former values that were looked for."""

    @property
    def acknowledged(self) -> Counter[str]:
        """Steps that were, by action."""
        return Counter(step.action for step in self.steps if step.acked_at_ns is not None)

    def lines(self) -> list[str]:
        """For the report."""
        errors = Counter(error for met in self.met for error in met.errors)
        looks, repeats = sum(met.looks for met in self.met), sum(met.repeats for met in self.met)
        return [
            f"memories: acknowledged {dict(self.acknowledged)} of {len(self.steps)} steps",
            f"{looks} looks at what was written, {repeats} writes repeated, {self.stale} former values looked for",
            f"errors that memory clients got over: {dict(errors)}",
        ]


class MemoryAttack:
    """Two driver processes with threads that write memories, from its making until `end`."""

    def __init__(self, runtime: Runtime, place: CampaignPlace, settings: Mapping[str, Any], seed: int) -> None:
        self._runtime = runtime
        self._place = place
        self._seed = seed
        self._agent = runtime.agent(AGENT, model=memory_script())
        self._pool = ProcessPoolExecutor(DRIVERS, mp_context=multiprocessing.get_context("spawn"))
        self._running: list[Future[list[Written]]] = [
            self._pool.submit(
                write_until_stopped,
                Writers(place=place, settings=settings, seed=seed, first_client=driver * THREADS, threads=THREADS),
            )
            for driver in range(DRIVERS)
        ]

    @property
    def is_over(self) -> bool:
        """Has a driver ended before it was told to?"""
        return any(each.done() for each in self._running)

    def end(self, agree_s: float = AGREE_S) -> MemoryOutcome:
        """Stop the drivers, wait until the indexes agree, and ask them for what should be gone."""
        self._place.stop.touch()
        try:
            met = [written for each in self._running for written in each.result()]
        finally:
            self._pool.shutdown()
        outcome = MemoryOutcome(steps=read_steps(self._place.journals), met=met)
        outcome.violations += [violation for written in met for violation in written.violations]
        try:
            outcome.violations += _differences(self._runtime, agree_s)
            outcome.violations += self._looks(outcome)
        except PerdureError as error:
            outcome.violations.append(Violation(count="unopenable", text=f"after all: {error}"))
        return outcome

    def check_file(self, outcome: MemoryOutcome) -> None:
        """Hold the journals against the file, once the runtime has let go of it."""
        try:
            stored = read_memories(self._place.data, self._agent.id)
        except StorageError as error:
            outcome.violations.append(Violation(count="unopenable", text=str(error)))
        else:
            outcome.violations += violations(outcome.steps, stored)

    def _looks(self, outcome: MemoryOutcome) -> Iterator[Violation]:
        chance = random.Random(f"{self._seed}-looks")
        active = self._agent.memories.list(limit=10_000, timeout_s=WAIT_S)
        now = {memory.value for memory in active}
        former = sorted({step.value for step in outcome.steps if step.value is not None} - now)
        stale = chance.sample(former, min(len(former), STALE_LOOKED_FOR))
        outcome.stale = len(stale)
        yield from _found_though_stale(self._agent, stale, set(former))
        yield from _looks_at_indexes(self._runtime, self._agent, active, stale)


def _differences(runtime: Runtime, agree_s: float) -> Iterator[Violation]:
    limit = time.monotonic() + agree_s
    while True:
        found = runtime.memory_call("differences", False, timeout_s=WAIT_S)
        unlike = [one for one in found if one.count or one.problem is not None]
        if not unlike or time.monotonic() > limit:
            break
        time.sleep(0.3)
    for one in unlike:
        for _ in range(max(1, one.count)):
            yield Violation(count="index_differences", text=str(one))


def _found_though_stale(agent: Agent, stale: Sequence[str], former: set[str]) -> Iterator[Violation]:
    """Does recall find what was replaced or forgotten, asked for it word by word?"""
    for value in stale:
        recalled = agent.memories.fused_recall(value, timeout_s=WAIT_S)
        for hit in recalled.hits:
            if hit.memory.value in former:
                yield Violation(count="stale_found", text=f"recall found {_shown(hit.memory)}: {hit.explanation}")
        for channel, reason in recalled.unanswered.items():
            yield Violation(count="index_differences", text=f"the {channel} channel does not answer: {reason}")


def _looks_at_indexes(
    runtime: Runtime, agent: Agent, active: Sequence[Memory], stale: Sequence[str]
) -> Iterator[Violation]:
    """Do the indexes themselves hold what is true now, and nothing else?

    Recall never shows what they should no longer hold: it looks up what they find. Here they are asked directly.
    """
    import ray

    vector, keyword = (index_actor(runtime.place, kind) for kind in ("vector", "keyword"))
    models = models_actor(runtime.place, 0)
    scope = IndexScope(agent=AgentName(agent.id), contacts=None)
    words = {unique_word(memory.value) for memory in active}
    for memory in active:
        [embedded] = ray.get(models.embed.remote([memory.value], False), timeout=WAIT_S)
        [answer] = ray.get(vector.search.remote("memory", [Search(embedded.vectors[0], scope, 30)]), timeout=WAIT_S)
        score = {str(hit.source): hit.score for hit in answer.hits}.get(memory.vector_id)
        if score is None:
            yield Violation(count="index_differences", text=f"the vector index does not find {_shown(memory)}")
        elif score < LIKE_ITSELF:
            yield Violation(count="stale_found", text=f"{_shown(memory)} has the vector of another value: {score:.4f}")
        search = Search(unique_word(memory.value), scope, 30)
        [answer] = ray.get(keyword.search.remote("memory", [search]), timeout=WAIT_S)
        if memory.vector_id not in {hit.source for hit in answer.hits}:
            yield Violation(count="index_differences", text=f"the keyword index does not find {_shown(memory)}")
    for word in {unique_word(value) for value in stale} - words:
        [answer] = ray.get(keyword.search.remote("memory", [Search(word, scope, 30)]), timeout=WAIT_S)
        for hit in answer.hits:
            yield Violation(count="stale_found", text=f"the keyword index finds {word!r} in {hit}")


def _shown(memory: Memory) -> str:
    return f"{key_shown(memory.scope, memory.key)} = {memory.value!r}"
