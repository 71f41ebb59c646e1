"""Semantic memory over Ray: what drivers and turns remember, through kills of everything that has a part in it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from perdure.actors.placement import index_actor, memory_actor
from perdure.actors.testing import CallTools, Rule, Say, Script
from perdure.storage.errors import InvalidInputError, MemoryDisabledError

REMEMBER = CallTools((("remember", {"key": "home.city", "value": "Ana lives in Lisbon", "category": "identity"}),))
SCRIPT = Script((Rule("note", (REMEMBER, Say("{result}"))), Rule(None, (Say("ok"),))))


def pid_of(runtime: Any, which: str) -> int:
    import ray

    actor: Any
    if which == "memory":
        actor = memory_actor(runtime.place)
    else:
        actor = index_actor(runtime.place, "vector" if which == "vector" else "keyword")
    return int(ray.get(actor.pid.remote()))


def kill(runtime: Any, which: str) -> None:
    os.kill(pid_of(runtime, which), signal.SIGKILL)


def values(recalled: Any) -> list[str]:
    return [hit.memory.value for hit in recalled.hits if not hit.is_filled]


def test_what_one_conversation_is_told_another_of_the_same_contact_knows_and_nobody_elses_does(runtime, name):
    runtime.agent(name, model=SCRIPT).conversation("told", contact="telegram:1").send("note where I live")
    agent = runtime.agent(name, model=None)
    assert "Ana lives in Lisbon" in agent.conversation("asked", contact="telegram:1").send("Where does Ana live?").text
    for other in (agent.conversation("other", contact="telegram:2"), agent.conversation("nobody")):
        assert "Lisbon" not in other.send("Where does Ana live?").text
        assert other.memories.recall() == []
        assert other.memories.fused_recall("home city Lisbon").hits == ()


def test_a_conversation_opened_again_without_its_contact_still_has_its_contacts_memories(runtime, name):
    agent = runtime.agent(name)
    agent.conversation("c", contact="email:ana@example.org").memories.remember("pet", "Ana has a parrot")
    [memory] = agent.conversation("c").memories.recall("pet")
    assert (memory.value, memory.scope.contact_id) == ("Ana has a parrot", "email:ana@example.org")


def test_a_replaced_and_a_forgotten_value_are_found_by_no_channel_at_once_and_history_keeps_both(runtime, name):
    memories = runtime.agent(name).memories_of("telegram:1")
    memories.remember("home.city", "Ana lives in Lisbon")
    done = memories.remember("town", "Ana moved to Porto")  # another key, the same attribute of the same person
    assert len(done.superseded) == 1 and done.verification == "verified"
    assert values(memories.fused_recall("In which home city does Ana live? Lisbon?")) == ["Ana moved to Porto"]
    [old] = memories.history("home.city")
    assert old.superseded_by == done.version_id
    assert memories.forget("town") == done.version_id
    assert memories.fused_recall("Ana town Porto Lisbon").hits == ()
    assert memories.recall("town") == []


@pytest.mark.crash
@pytest.mark.parametrize("victim", ["memory", "vector", "keyword"])
def test_what_was_acknowledged_is_found_by_every_channel_after_a_kill(runtime, name, victim):
    memories = runtime.agent(name).memories
    for number in range(5):
        memories.remember(f"colour.{number}", f"The door number {number} is painted in violet")
    before = pid_of(runtime, victim)
    kill(runtime, victim)
    recalled = memories.fused_recall("violet door colour", 5, fill=False)
    limit = time.monotonic() + 60
    while recalled.unanswered:  # a machine that is too busy may take longer to begin a process anew
        assert list(recalled.unanswered) == [victim]
        assert len(values(recalled)) == 5
        assert time.monotonic() < limit
        recalled = memories.fused_recall("violet door colour", 5, fill=False)
    assert sorted(values(recalled)) == [f"The door number {number} is painted in violet" for number in range(5)]
    assert all({place.channel for place in hit.ranks} == {"vector", "keyword", "exact_key"} for hit in recalled.hits)
    assert pid_of(runtime, victim) != before  # guards the test itself


@pytest.mark.crash
def test_acknowledged_memories_survive_kills_of_all_three_while_several_threads_write(runtime, name):
    agent = runtime.agent(name)
    acknowledged: list[str] = []
    ended = threading.Event()

    def write(who: int) -> None:
        for number in range(12):
            key = f"fact.{who}.{number}"
            agent.memories.remember(key, f"Thread {who} saw comet number {number}", timeout_s=90)
            acknowledged.append(key)

    def kill_now_and_then() -> None:
        for victim in ("vector", "memory", "keyword", "memory"):
            if ended.wait(0.5):
                return
            with suppress(Exception):
                kill(runtime, victim)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    killer = threading.Thread(target=kill_now_and_then)
    for thread in (*threads, killer):
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    killer.join()
    assert len(acknowledged) == 48
    assert {memory.key for memory in agent.memories.list(limit=100)} == set(acknowledged)
    limit = time.monotonic() + 30
    while any(one.count or one.problem for one in runtime.memory_call("differences", False, timeout_s=60)):
        assert time.monotonic() < limit
        time.sleep(0.3)


def test_an_index_that_hangs_fails_no_recall_and_no_write_and_the_answers_name_it(runtime, name):
    memories = runtime.agent(name).memories
    memories.remember("boat", "The boat lies in the northern harbour")
    pid = pid_of(runtime, "vector")
    os.kill(pid, signal.SIGSTOP)
    try:
        recalled = memories.fused_recall("Where does the boat lie?", fill=False)
        assert list(recalled.unanswered) == ["vector"]
        assert values(recalled) == ["The boat lies in the northern harbour"]
        done = memories.remember("dog", "The dog sleeps in the kitchen")
        assert list(done.not_yet_in) == ["vector"]
        assert values(memories.fused_recall("kitchen dog", fill=False)) == ["The dog sleeps in the kitchen"]
    finally:
        os.kill(pid, signal.SIGCONT)
    limit = time.monotonic() + 30
    while "vector" not in {
        place.channel for hit in memories.fused_recall("a sleeping pet", fill=False).hits for place in hit.ranks
    }:
        assert time.monotonic() < limit
        time.sleep(0.3)


def test_an_agent_without_memory_is_not_offered_the_tools_and_its_calls_say_so(runtime, name):
    agent = runtime.agent(name, model=SCRIPT, memory=False)
    assert "There is no tool 'remember'" in agent.conversation("c").send("note where I live").text
    with pytest.raises(MemoryDisabledError, match=name):
        agent.memories.remember("k", "v")
    assert agent.conversation("c").context("hello").part("memories").messages == ()


@pytest.mark.parametrize(
    ("field", "arguments"),
    [("key", ("", "v")), ("key", ("k" * 2000, "v")), ("value", ("k", "  ")), ("value", ("k", "v" * 2_100_000))],
)
def test_what_cannot_be_remembered_is_refused_by_name_and_nothing_is_written(runtime, name, field, arguments):
    memories = runtime.agent(name).memories
    with pytest.raises(InvalidInputError) as raised:
        memories.remember(*arguments)
    assert raised.value.field == field
    assert memories.list() == []


def test_odd_keys_values_and_queries_stay_in_their_scope_and_never_meet_an_engines_error(runtime, name):
    agent = runtime.agent(name)
    theirs = agent.memories_of("bob")
    theirs.remember("x", "Bob keeps bees")
    mine = agent.memories_of("ana")
    for key in ("contact:bob:x", "memory:contact:bob:x", "%", "'; DROP TABLE agent_state; --", "🙂", "a/b:c.d"):
        mine.remember(key, f"Ana's note under {key}")
        assert [memory.value for memory in mine.recall(key)] == [f"Ana's note under {key}"]
    assert [memory.value for memory in theirs.recall("x")] == ["Bob keeps bees"]
    for query in ("", "?!", '"', "OR", ") OR (", "+a -b *", "x" * 100_000, "蜜蜂", "النحل", "मधुमक्खी"):
        assert "Bob keeps bees" not in values(mine.fused_recall(query))
