"""Whatever is remembered, forgotten, killed and broken, in whatever order: memory says what a plain model says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from perdure.storage.memory_index_records import INDEX_KINDS, IndexKind
from perdure.storage.memory_keys import AGENT_WIDE, Scope
from tests.fixtures.memories import AGENT, ANA, BO
from tests.fixtures.memory_service import Fault, MemoryWorld

SCOPES = st.sampled_from([AGENT_WIDE, ANA, BO])
KEYS = st.sampled_from(["home.city", "pet", "contact:email:bo:pet", "Überschrift/1"])
VALUES = st.sampled_from(["Lisbon by the sea", "a brown dog", "zwölf Boxkämpfer", "里斯本的老城", "Lisbon and a dog"])
TYPES = st.sampled_from([None, "fact", "task", "event"])
KINDS: st.SearchStrategy[IndexKind] = st.sampled_from(INDEX_KINDS)
FAULTS: st.SearchStrategy[Fault] = st.sampled_from(["down", "damaged"])


class RandomMemory(RuleBasedStateMachine):
    """A service under faults beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.known: dict[tuple[Scope, str], str] = {}
        self.are_tasks: set[tuple[Scope, str]] = set()

    @initialize()
    def begin(self) -> None:
        self.world = MemoryWorld(self.folder)

    @rule(scope=SCOPES, key=KEYS, value=VALUES, fact_type=TYPES)
    def remember(self, scope: Scope, key: str, value: str, fact_type: str | None) -> None:
        done = self.world.say(key, value, scope, fact_type=fact_type)
        self.known[scope, key] = value
        if fact_type == "task":
            self.are_tasks.add((scope, key))
        elif fact_type is not None:
            self.are_tasks.discard((scope, key))
        concerned = {"keyword"} if (scope, key) in self.are_tasks else {"keyword", "vector"}
        down = {kind for kind in INDEX_KINDS if self.world.index(kind).fault == "down"}
        assert done.outcome == "confirmed" or down & concerned <= set(done.not_yet_in)

    @rule(scope=SCOPES, key=KEYS)
    def forget(self, scope: Scope, key: str) -> None:
        ended = self.world.forget(AGENT, scope, key)
        was_known = self.known.pop((scope, key), None) is not None
        self.are_tasks.discard((scope, key))
        assert (ended is not None) or not was_known

    @rule(scope=SCOPES, text=VALUES)
    def recall(self, scope: Scope, text: str) -> None:
        recalled = self.world.recalled(text, scope)
        visible = {place: value for place, value in self.known.items() if place[0] in (scope, AGENT_WIDE)}
        found = {(hit.memory.scope, hit.memory.key): hit for hit in recalled.hits}
        assert {place: hit.memory.value for place, hit in found.items()}.items() <= visible.items()
        for place, value in visible.items():
            if value != text:
                continue
            wanted = {"keyword"} if place in self.are_tasks else {"keyword", "vector"}
            channels = {rank.channel for rank in found[place].ranks} if place in found else set()
            assert wanted - recalled.unanswered.keys() <= channels, (place, channels, recalled.unanswered)

    @rule(kind=KINDS)
    def kill(self, kind: IndexKind) -> None:
        self.world.kill(kind)

    @rule(kind=KINDS, fault=FAULTS)
    def fail(self, kind: IndexKind, fault: Fault) -> None:
        self.world.index(kind).fault = fault

    @rule(kind=KINDS)
    def mend(self, kind: IndexKind) -> None:
        self.world.index(kind).fault = None

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule()
    def all_die(self) -> None:
        self.world.stop()
        self.world.kill()
        self.world.start()

    @rule(kind=KINDS)
    def reindex(self, kind: IndexKind) -> None:
        if self.world.index(kind).fault != "down":  # no precondition: a damaged one is mended by itself, at any moment
            self.world.do(self.world.service.reindex(kind))

    def teardown(self) -> None:
        self.world.vector.fault = self.world.keyword.fault = None
        try:
            self.world.until_agreed()
            assert self.world.active() == {(scope.contact_id, key): value for (scope, key), value in self.known.items()}
            for scope in (AGENT_WIDE, ANA, BO):
                for text in set(self.known.values()):
                    self.recall(scope, text)
        finally:
            self.world.close()
            shutil.rmtree(self.folder)


TestRandomMemory = RandomMemory.TestCase
TestRandomMemory.settings = settings(
    max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
