"""What a new memory replaces is superseded when it is stored; or later, where nobody could be asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from perdure.jobs.decision_model import Answer, DecisionState, Question, QuestionId
from perdure.jobs.memory_upkeep import KEPT_WRITE_IDS
from perdure.storage.errors import ModelRequestError, ModelUnavailableError
from tests.fixtures.decisions import ToldDecisions
from tests.fixtures.memories import ANA, BO, sees
from tests.fixtures.memory_service import MemoryWorld, with_limits

AWAY = ModelUnavailableError("told", "it is away")
Opened = Callable[..., MemoryWorld]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    worlds: list[MemoryWorld] = []

    def open_world(decisions: ToldDecisions, **limits: float | bool) -> MemoryWorld:
        worlds.append(MemoryWorld(tmp_path, decisions, with_limits(**limits)))
        return worlds[-1]

    yield open_world
    for world in worlds:
        world.close()


def replacing() -> ToldDecisions:
    return ToldDecisions({"new_replaces_known_1": 0.9})


def test_what_a_new_memory_replaces_is_superseded_with_it_and_found_no_more(opened: Opened) -> None:
    memory = opened(replacing())
    first = memory.say("residence", "Ana lives in Lisbon")
    done = memory.say("home", "Ana lives in Porto")
    assert (done.verification, done.superseded) == ("verified", (first.version_id,))
    assert set(memory.found("Ana lives in Lisbon residence")) == {"Ana lives in Porto"}
    memory.until_agreed()


def test_a_repeat_of_a_write_that_replaced_another_is_told_the_first_result(opened: Opened) -> None:
    memory = opened(replacing())
    memory.say("residence", "Ana lives in Lisbon")
    done = memory.say("home", "Ana lives in Porto", write_id="same")
    repeated = memory.say("home", "Ana lives in Porto", write_id="same")
    assert (repeated.outcome, repeated.version_id, repeated.superseded) == (
        done.outcome,
        done.version_id,
        done.superseded,
    )


def test_only_memories_of_the_same_scope_are_asked_about(opened: Opened) -> None:
    decisions = replacing()
    memory = opened(decisions)
    memory.say("residence", "Ana lives in Lisbon", BO)
    memory.say("residence", "Ana lives in Lisbon")
    memory.say("filler", "nothing alike", ANA)
    assert memory.say("home", "Ana lives in Porto", ANA).verification == "not_needed"
    assert decisions.questions == []


def test_a_task_is_not_asked_about(opened: Opened) -> None:
    decisions = replacing()
    memory = opened(decisions)
    memory.say("residence", "Ana lives in Lisbon")
    assert memory.say("todo", "Ana lives in Porto", fact_type="task").verification == "not_needed"
    assert decisions.questions == []


def test_what_was_said_before_what_is_known_is_stored_as_a_former_value(opened: Opened) -> None:
    memory = opened(ToldDecisions({"known_1_replaces_new": 0.9}))
    long_ago = memory.clock.now()
    memory.say("residence", "Ana lives in Porto")
    done = memory.say("home", "Ana lives in Lisbon", valid_from=long_ago)
    assert done.outcome == "outdated"
    assert set(memory.found("Ana lives in Lisbon home")) == {"Ana lives in Porto"}
    [former] = memory.do(memory.service.history(sees(), "home"))
    assert (former.value, former.reason) == ("Ana lives in Lisbon", "outdated when it was stored")


def test_a_write_that_nobody_could_be_asked_about_is_stored_and_verified_later(opened: Opened) -> None:
    decisions = replacing()
    decisions.failure = AWAY
    memory = opened(decisions)
    first = memory.say("residence", "Ana lives in Lisbon")
    done = memory.say("home", "Ana lives in Porto")
    assert (done.outcome, done.verification, done.superseded) == ("created", "unverified", ())
    assert memory.do(memory.service.counts()).unverified == 1
    decisions.failure = None
    memory.until(lambda: memory.do(memory.service.counts()).unverified == 0)
    assert set(memory.active().values()) == {"Ana lives in Porto"}
    former = memory.do(memory.service.get(sees(), first.version_id.memory_id))
    assert former is not None
    assert (former.superseded_by, former.reason) == (
        done.version_id,
        "replaced by home: told says so, probability 0.90",
    )
    memory.until_agreed()


@pytest.mark.parametrize("missing", ["index", "embedder"])
def test_without_index_or_embedder_a_write_is_stored_unverified_and_verified_when_they_are_back(
    opened: Opened, missing: str
) -> None:
    memory = opened(replacing())
    memory.say("residence", "Ana lives in Lisbon")
    memory.until_agreed()
    if missing == "index":
        memory.vector.fault = "down"
    else:
        memory.words.is_down = True
    assert memory.say("home", "Ana lives in Porto").verification == "unverified"
    memory.vector.fault, memory.words.is_down = None, False
    memory.until(lambda: set(memory.active().values()) == {"Ana lives in Porto"})
    memory.until(lambda: memory.do(memory.service.counts()).unverified == 0)


def test_a_slow_decision_holds_a_write_up_no_longer_than_its_limit(opened: Opened, monkeypatch) -> None:
    decisions = replacing()
    memory = opened(decisions, verify_timeout_s=0.3)
    memory.say("residence", "Ana lives in Lisbon")
    decide = decisions.decide

    def decide_slowly(state: DecisionState, questions: Sequence[Question]) -> Mapping[QuestionId, Answer]:
        time.sleep(1)
        return decide(state, questions)

    monkeypatch.setattr(decisions, "decide", decide_slowly)
    assert memory.say("home", "Ana lives in Porto").verification == "unverified"
    assert len(memory.active()) == 2
    monkeypatch.undo()
    memory.until(lambda: len(memory.active()) == 1)


def test_a_memory_that_can_never_be_verified_holds_up_none_behind_it(opened: Opened) -> None:
    decisions = replacing()
    decisions.failure = AWAY
    memory = opened(decisions)
    memory.say("residence", "Ana lives in Lisbon")
    memory.words.refused = "cursed"
    for number in range(40):
        memory.say(f"relic{number}", f"a cursed relic {number}")
    memory.say("home", "Ana lives in Porto")
    decisions.failure = None
    memory.until(lambda: memory.do(memory.service.counts()).unverified == 40)
    assert "Ana lives in Lisbon" not in memory.active().values()


def test_a_request_that_the_model_will_not_take_leaves_the_memory_unverified(opened: Opened) -> None:
    decisions = replacing()
    decisions.failure = ModelRequestError("told", "the policy forbids it")
    memory = opened(decisions)
    memory.say("residence", "Ana lives in Lisbon")
    assert memory.say("home", "Ana lives in Porto").verification == "unverified"
    assert len(memory.active()) == 2


def test_without_verification_nothing_is_asked(opened: Opened) -> None:
    decisions = replacing()
    memory = opened(decisions, verify=False)
    memory.say("residence", "Ana lives in Lisbon")
    assert memory.say("home", "Ana lives in Porto").verification == "not_needed"
    assert (decisions.questions, len(memory.active())) == ([], 2)


def test_late_verification_outlives_a_restart(opened: Opened) -> None:
    decisions = replacing()
    decisions.failure = AWAY
    memory = opened(decisions)
    memory.say("residence", "Ana lives in Lisbon")
    memory.say("home", "Ana lives in Porto")
    memory.stop()
    decisions.failure = None
    memory.start()
    memory.until(lambda: set(memory.active().values()) == {"Ana lives in Porto"})


def test_old_ids_of_writes_are_forgotten(opened: Opened) -> None:
    memory = opened(ToldDecisions())
    memory.say("color", "blue", write_id="same")
    memory.clock.time += KEPT_WRITE_IDS
    memory.do(memory.service._upkeep._prune())
    assert memory.say("color", "green", write_id="same").outcome == "versioned"
