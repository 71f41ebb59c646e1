"""What is remembered is found, by every channel that answers; what was replaced or forgotten is found by none."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.jobs import memory_upkeep
from perdure.jobs.memory_requests import KeyRecall, Remember
from perdure.storage.errors import InvalidInputError, MemoryConflictError
from perdure.storage.memory_keys import AGENT_WIDE, Scope
from perdure.storage.memory_write_records import MemoryWrite, WriteRefused, WriteResult
from perdure.storage.records import ContactId
from tests.fixtures.memories import AGENT, ANA, BO, sees
from tests.fixtures.memory_service import MemoryWorld

ALL = {"vector", "keyword", "exact_key"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path)
    yield world
    world.close()


# --- what is found -----------------------------------------------------------------------------------------


def test_what_remember_acknowledged_is_found_by_every_channel(memory: MemoryWorld) -> None:
    done = memory.say("home.city", "Ana lives in Lisbon")
    assert (done.outcome, done.not_yet_in) == ("created", {})
    assert memory.found("which city does Ana live in?") == {"Ana lives in Lisbon": ALL}


def test_every_write_of_many_is_found_at_once(memory: MemoryWorld) -> None:
    for number in range(40):
        memory.say(f"thing{number}", f"word{number} is remembered")
        assert memory.found(f"word{number}")[f"word{number} is remembered"] >= {"vector", "keyword"}


def test_what_was_replaced_is_found_by_no_channel(memory: MemoryWorld) -> None:
    memory.say("home.city", "Ana lives in Lisbon")
    assert memory.say("home.city", "Ana lives in Porto").outcome == "versioned"
    assert memory.found("Lisbon city home") == {"Ana lives in Porto": ALL}


@pytest.mark.parametrize("is_down", [False, True])
def test_what_was_forgotten_is_found_by_no_channel_even_while_the_indexes_are_down(
    memory: MemoryWorld, is_down: bool
) -> None:
    memory.say("home.city", "Ana lives in Lisbon")
    if is_down:
        memory.vector.fault = memory.keyword.fault = "down"
    assert memory.forget(AGENT, AGENT_WIDE, "home.city") is not None
    assert memory.found("home city Lisbon") == {}
    memory.vector.fault = memory.keyword.fault = None
    assert memory.found("home city Lisbon") == {}
    memory.until_agreed()


def test_forgetting_twice_is_told_the_same(memory: MemoryWorld) -> None:
    memory.say("home.city", "Ana lives in Lisbon")
    first = memory.forget(AGENT, AGENT_WIDE, "home.city")
    assert first is not None
    assert memory.forget(AGENT, AGENT_WIDE, "home.city") == first
    assert memory.forget(AGENT, AGENT_WIDE, "home.town") is None
    assert memory.forget(AGENT, ANA, "home.city") is None


def test_a_key_that_was_forgotten_can_be_remembered_again(memory: MemoryWorld) -> None:
    for value in ("blue", "green", "blue"):
        assert memory.say("color", f"Ana likes {value}").not_yet_in == {}
        assert memory.found("Ana color") == {f"Ana likes {value}": ALL}
        memory.forget(AGENT, AGENT_WIDE, "color")
        assert memory.found("Ana color") == {}
    memory.until_agreed()


def test_a_task_is_found_by_word_and_key_and_has_no_vector(memory: MemoryWorld) -> None:
    memory.say("todo", "Call the plumber", fact_type="task")
    assert memory.found("todo: call the plumber") == {"Call the plumber": {"keyword", "exact_key"}}


def test_a_fact_that_becomes_a_task_loses_its_vector_and_gets_it_back(memory: MemoryWorld) -> None:
    for fact_type, channels in (("fact", ALL), ("task", ALL - {"vector"}), ("event", ALL)):
        memory.say("todo", "Call the plumber", fact_type=fact_type)
        assert memory.found("todo: call the plumber") == {"Call the plumber": channels}
    memory.until_agreed()


def test_a_long_text_is_found_by_its_end(memory: MemoryWorld) -> None:
    memory.say("filler", "nothing of interest")
    memory.say("report", " ".join(f"filler{number}" for number in range(2000)) + " the zebra escaped from the zoo")
    [hit] = memory.recalled("the zebra escaped from the zoo", top_k=1).hits
    assert (hit.memory.key, {place.channel for place in hit.ranks}) == ("report", {"vector", "keyword"})


# --- scopes ------------------------------------------------------------------------------------------------


def test_a_contact_sees_its_own_memories_and_the_agent_wide_ones_through_every_path(memory: MemoryWorld) -> None:
    for scope, value in ((ANA, "secret of Ana"), (BO, "secret of Bo"), (AGENT_WIDE, "secret of all")):
        memory.say("secret", value, scope)
    for scope, own in ((ANA, ["secret of Ana", "secret of all"]), (AGENT_WIDE, ["secret of all"])):
        assert memory.found("secret", scope) == dict.fromkeys(own, ALL)
        filled = memory.recalled("unrelated", scope, is_filled=True)
        assert {hit.memory.value for hit in filled.hits} == set(own)
        everything = memory.do(memory.service.page(sees(scope)))
        assert {each.value for each in everything} == set(own)
        under_key = memory.do(memory.service.history(sees(scope), "secret"))
        assert {each.value for each in under_key} == set(own)


def test_a_key_that_looks_like_another_contacts_stays_where_it_was_said(memory: MemoryWorld) -> None:
    bob = Scope(contact_id=ContactId("bob"))
    memory.say("x", "truth about Bob", bob)
    memory.say("contact:bob:x", "lie about Bob", ANA)
    memory.say("contact:bob:x", "rumour about Bob")
    assert set(memory.found("contact bob x about Bob", bob)) == {"truth about Bob", "rumour about Bob"}
    assert set(memory.found("contact bob x about Bob", ANA)) == {"lie about Bob", "rumour about Bob"}
    memory.forget(AGENT, AGENT_WIDE, "contact:bob:x")
    assert set(memory.found("contact bob x about Bob", bob)) == {"truth about Bob"}
    memory.until_agreed()


# --- writes ------------------------------------------------------------------------------------------------


def test_writes_that_come_together_share_a_commit(memory: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    write_memories = memory.store.write_memories

    def counted(*, writes: list[MemoryWrite]) -> list[WriteResult | WriteRefused]:
        commits.append(len(writes))
        return write_memories(writes=writes)

    monkeypatch.setattr(memory.store, "write_memories", counted)
    facts = [memory.fact(f"k{number}", f"value {number}", is_verified=False) for number in range(64)]
    done = memory.together(*(memory.service.remember(fact) for fact in facts))
    assert {each.outcome for each in done} == {"created"}
    assert len(memory.active()) == 64
    assert sum(commits) == 64
    assert len(commits) <= 3


def test_one_write_that_is_refused_harms_none_of_those_that_share_its_commit(memory: MemoryWorld) -> None:
    facts = [memory.fact("" if number == 3 else f"k{number}", "value", is_verified=False) for number in range(6)]

    async def remembered(fact: Remember) -> str:
        try:
            return (await memory.service.remember(fact)).outcome
        except InvalidInputError as error:
            return error.field

    assert memory.together(*map(remembered, facts)) == ["created"] * 3 + ["key"] + ["created"] * 2


@pytest.mark.parametrize("wrong", [{"key": " "}, {"value": ""}, {"value": 5}, {"key": None}, {"metadata": "[]"}])
def test_what_cannot_be_stored_is_refused_by_name_and_changes_nothing(
    memory: MemoryWorld, wrong: dict[str, Any]
) -> None:
    memory.say("color", "blue")
    with pytest.raises(InvalidInputError) as refused:
        memory.say(**{"key": "color", "value": "green", **wrong})
    assert refused.value.field in wrong
    assert memory.active() == {(None, "color"): "blue"}


def test_a_repeat_of_a_write_is_told_the_first_result_and_another_fact_of_its_id_is_refused(
    memory: MemoryWorld,
) -> None:
    first = memory.say("color", "blue", write_id="same")
    memory.say("color", "green")
    assert memory.say("color", "blue", write_id="same") == first
    assert memory.active() == {(None, "color"): "green"}
    with pytest.raises(MemoryConflictError):
        memory.say("color", "red", write_id="same")


def test_a_value_that_is_known_is_not_embedded_again(memory: MemoryWorld) -> None:
    memory.say("color", "Ana likes blue")
    memory.say("color", "Ana likes blue")
    memory.say("color", "Ana likes blue", fact_type="preference")
    memory.say("other", "Ana likes blue")
    assert memory.words.embedded == {"Ana likes blue": 1}


# --- recall ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "?!…—*",
        "((",
        '"',
        "AND OR NOT",
        "a:b^2~",
        "\x00\ud800",
        "x " * 50_000,
        "居住在里斯本",
        "أين تعيش",
        "लिस्बन में",
    ],
    ids=range(12),
)
def test_no_query_makes_recall_raise(memory: MemoryWorld, query: str) -> None:
    memory.say("home.city", "Ana lives in Lisbon")
    recalled = memory.recalled(query, is_filled=True)
    assert [hit.memory.value for hit in recalled.hits] == ["Ana lives in Lisbon"]
    assert recalled.unanswered == {}


@pytest.mark.parametrize(
    ("value", "query"),
    [("她住在里斯本", "里斯本"), ("تعيش آنا في لشبونة", "لشبونة"), ("एना लिस्बन में रहती है", "लिस्बन")],
)
def test_other_scripts_are_found_by_word(memory: MemoryWorld, value: str, query: str) -> None:
    memory.say("city", value)
    assert "keyword" in memory.found(query)[value]


def test_hits_are_at_most_top_k_and_the_list_is_filled_up_by_use(memory: MemoryWorld) -> None:
    for number in range(30):
        memory.say(f"fruit{number}", f"apple number {number}", is_verified=False)
    recalled = memory.recalled("apple", top_k=4, is_filled=True)
    assert [hit.is_filled for hit in recalled.hits] == [False] * 4 + [True] * 16
    assert len({hit.memory.key for hit in recalled.hits}) == 20
    for wrong in (0, -1, 10_001, True, "4"):
        with pytest.raises(InvalidInputError, match="top_k"):
            memory.recalled("apple", top_k=wrong)


def test_only_hits_count_as_used(memory: MemoryWorld) -> None:
    memory.say("pet", "Ana has a dog")
    memory.say("color", "Ana likes blue", is_verified=False)
    for _ in range(3):
        hits = memory.recalled("dog", top_k=1, is_filled=True).hits
        assert {hit.memory.key: hit.is_filled for hit in hits} == {"pet": False, "color": True}
    memory.restart()
    assert {each.key: each.access_count for each in memory.do(memory.service.page(sees()))} == {"pet": 3, "color": 0}


def test_history_and_moments_answer_after_a_replacement(memory: MemoryWorld) -> None:
    memory.say("city", "Lisbon", valid_from=memory.clock.now())
    between = memory.clock.now()
    memory.say("city", "Porto")
    memory.say("city", "Faro", ANA)
    history = memory.do(memory.service.history(sees(), "city"))
    assert [each.value for each in history] == ["Lisbon", "Porto"]
    assert [each.value for each in memory.recall_key(KeyRecall(visible=sees(), key="city"))] == ["Porto"]
    assert [each.value for each in memory.recall_key(KeyRecall(visible=sees(ANA), key="city"))] == ["Faro"]
    for key in ("city", None):
        then = memory.recall_key(KeyRecall(visible=sees(), key=key, as_of=between))
        assert [each.value for each in then] == ["Lisbon"]
    now = memory.recall_key(KeyRecall(visible=sees(ANA), key="city", as_of=memory.clock.now()))
    assert [each.value for each in now] == ["Faro", "Porto"]


def test_where_nothing_may_be_seen_nothing_is_embedded_and_no_index_is_asked(memory: MemoryWorld) -> None:
    memory.say("pet", "a dog", ANA)
    memory.until_flushed()
    asked = Counter(memory.vector.calls), Counter(memory.keyword.calls), memory.words.queries
    assert memory.recalled("a dog", BO).hits == ()
    assert (memory.vector.calls, memory.keyword.calls, memory.words.queries) == asked
    assert memory.recalled("a dog", ANA).hits
    assert memory.words.queries == asked[2] + 1


def test_an_index_is_not_begun_before_there_is_anything_for_it(tmp_path: Path) -> None:
    world = MemoryWorld(tmp_path)
    try:
        assert world.recalled("a dog").hits == ()
        time.sleep(0.3)
        assert (world.vector.calls, world.keyword.calls) == (Counter(), Counter())
        world.say("pet", "a dog")
        assert world.found("a dog") == {"a dog": {"vector", "keyword"}}
        world.until(lambda: bool(world.vector.calls["sources"] and world.keyword.calls["sources"]))  # compared, too
        world.restart()
        world.until(lambda: world.vector.calls["sources"] > 1)
    finally:
        world.close()


def test_the_log_is_folded_into_the_file_once_nothing_is_written(
    memory: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_upkeep, "TIDY_BYTES", 10_000)
    memory.say("long", "x" * 50_000)
    assert memory.store.wal_bytes > 10_000
    memory.until(lambda: memory.store.wal_bytes == 0)
    assert memory.found("long")
