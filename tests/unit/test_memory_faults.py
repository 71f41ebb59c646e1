"""Whatever fails beside the file of memories loses no write, fails no recall, and is made good by itself."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.jobs import index_feed, local_index
from perdure.jobs.memory_requests import RecallQuery
from perdure.storage.errors import FileClosedError
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.memory_index_records import INDEX_KINDS, IndexKind
from perdure.storage.memory_keys import AGENT_WIDE
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.memories import AGENT, sees
from tests.fixtures.memory_service import Fault, MemoryWorld, with_limits

ALL = {"vector", "keyword", "exact_key"}
OTHER: dict[IndexKind, IndexKind] = {"vector": "keyword", "keyword": "vector"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[MemoryWorld]:
    """One that waits for nobody as long as a slow index takes."""
    world = MemoryWorld(tmp_path, settings=with_limits(tell_timeout_s=0.5, channel_timeout_s=0.5))
    yield world
    world.close()


def say_many(world: MemoryWorld, count: int) -> None:
    facts = [world.fact(f"k{number}", f"value number{number}", is_verified=False) for number in range(count)]
    world.together(*map(world.service.remember, facts))
    world.until_agreed()


def loses(world: MemoryWorld, kind: IndexKind) -> None:
    """Throw away what an index has on disk, and its process with it."""
    name = "memory_vectors.lance" if kind == "vector" else "memory_words.lance"
    shutil.rmtree(world.folder / "indexes" / name)
    world.kill(kind)


def spoils(world: MemoryWorld, kind: IndexKind) -> None:
    """Write nonsense over what an index has on disk, and kill its process."""
    name = "memory_vectors.lance" if kind == "vector" else "memory_words.lance"
    for file in (world.folder / "indexes" / name).rglob("*"):
        if file.is_file():
            file.write_bytes(b"nonsense")
    world.kill(kind)


# --- an index that fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["down", "slow"])
@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_an_index_that_fails_is_named_loses_no_write_and_catches_up_by_itself(
    hurried: MemoryWorld, kind: IndexKind, fault: Fault
) -> None:
    hurried.say("pet", "Ana has a dog")
    hurried.index(kind).fault, hurried.index(kind).slow_s = fault, 1.5
    done = hurried.say("car", "Ana drives a van")
    assert set(done.not_yet_in) == {kind}
    recalled = hurried.recalled("Ana drives a van: car")
    assert set(recalled.unanswered) == {kind}
    assert recalled.hits[0].memory.key == "car"
    assert {place.channel for place in recalled.hits[0].ranks} == {OTHER[kind], "exact_key"}
    hurried.index(kind).fault = None
    hurried.until_agreed()
    assert hurried.found("Ana drives a van: car")["Ana drives a van"] == ALL
    assert hurried.say("hat", "Ana wears a hat").not_yet_in == {}


def test_both_indexes_may_be_down_and_the_key_still_finds(memory: MemoryWorld) -> None:
    memory.vector.fault = memory.keyword.fault = "down"
    assert set(memory.say("car", "Ana drives a van").not_yet_in) == {"vector", "keyword"}
    recalled = memory.recalled("which car?", is_filled=True)
    assert [hit.memory.value for hit in recalled.hits] == ["Ana drives a van"]
    assert set(recalled.unanswered) == {"vector", "keyword"}


def test_writes_do_not_each_wait_for_an_index_that_hangs(hurried: MemoryWorld) -> None:
    hurried.say("pet", "Ana has a dog", is_verified=False)
    hurried.keyword.fault, hurried.keyword.slow_s = "slow", 5.0
    begin = time.monotonic()
    for number in range(10):
        assert "keyword" in hurried.say(f"k{number}", "value", is_verified=False).not_yet_in
    assert time.monotonic() - begin < 2.0


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_an_index_that_is_damaged_is_made_anew_by_itself(memory: MemoryWorld, kind: IndexKind) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_flushed()
    memory.index(kind).fault = "damaged"
    recalled = memory.recalled("a dog: pet")
    assert (set(recalled.unanswered), [hit.memory.key for hit in recalled.hits]) == ({kind}, ["pet"])
    memory.until_agreed()
    assert memory.index(kind).calls["rebuild"] == 1
    assert memory.found("a dog: pet") == {"Ana has a dog": ALL}


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_a_write_that_meets_a_damaged_index_has_it_made_anew(memory: MemoryWorld, kind: IndexKind) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_flushed()
    memory.index(kind).fault = "damaged"
    assert set(memory.say("car", "Ana drives a van", is_verified=False).not_yet_in) <= {kind}
    memory.until(lambda: memory.index(kind).calls["rebuild"] == 1 and not memory.problems())
    assert memory.found("a dog: pet")["Ana has a dog"] == ALL


@pytest.mark.parametrize("kind", INDEX_KINDS)
@pytest.mark.parametrize("harm", [loses, spoils])
def test_an_index_whose_files_are_gone_or_nonsense_is_made_anew_by_itself(
    memory: MemoryWorld, kind: IndexKind, harm: object
) -> None:
    memory.say("pet", "Ana has a dog")
    memory.say("car", "Ana drives a van")
    memory.until_flushed()
    assert callable(harm)
    harm(memory, kind)
    memory.recalled("a dog: pet")  # somebody has to notice
    memory.until(lambda: memory.found("a dog: pet").get("Ana has a dog") == ALL)
    memory.until_agreed()


def test_a_query_that_finds_damage_where_there_is_none_costs_no_index(memory: MemoryWorld) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_agreed()
    memory.keyword.poison = "a dog"
    assert set(memory.recalled("a dog").unanswered) == {"keyword"}
    memory.until_agreed()
    assert "keyword" in memory.found("dog")["Ana has a dog"]
    assert memory.keyword.calls["rebuild"] == 0


# --- an index that is killed -------------------------------------------------------------------------------


def test_what_a_killed_index_lost_it_is_told_again_before_it_answers(memory: MemoryWorld) -> None:
    for number in range(12):
        memory.say(f"k{number}", f"value {number}", is_verified=False)
        memory.kill()
        found = memory.found(f"value {number}: k{number}")
        assert found[f"value {number}"] == ALL
    memory.until_agreed()


def _slowly(tidy: Callable[[Any], None]) -> Callable[[Any], None]:
    def slow(index: Any) -> None:
        time.sleep(0.1)
        tidy(index)

    return slow


def test_an_index_killed_at_any_moment_of_its_upkeep_finds_all_when_it_answers_again(
    memory: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_index, "LONG_IDLE_S", 0.01)
    monkeypatch.setattr(index_feed, "FLUSH_S", 0.05)
    for kind in (VectorIndex, KeywordIndex):
        monkeypatch.setattr(kind, "tidy", _slowly(kind.tidy))
    chance = random.Random(1)
    for number in range(20):
        memory.say(f"k{number}", f"value {number}", is_verified=False)
        time.sleep(chance.uniform(0.0, 0.15))
        memory.kill()
        assert memory.found(f"value {number}: k{number}")[f"value {number}"] == ALL


def test_what_a_killed_index_was_told_to_forget_stays_forgotten(memory: MemoryWorld) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_agreed()
    memory.forget(AGENT, AGENT_WIDE, "pet")
    memory.kill()
    assert memory.found("pet dog") == {}
    memory.until_agreed()


def test_after_service_and_indexes_died_together_the_first_search_finds_all(memory: MemoryWorld) -> None:
    memory.say("pet", "Ana has a dog")
    memory.stop()
    memory.kill()
    memory.start()
    assert memory.found("pet dog") == {"Ana has a dog": ALL}


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_what_an_index_lost_from_its_disk_is_noticed_when_the_service_starts(
    memory: MemoryWorld, kind: IndexKind
) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_agreed()
    memory.stop()
    loses(memory, kind)
    memory.start()
    memory.until(lambda: memory.found("pet dog").get("Ana has a dog") == ALL)
    memory.until_agreed()


# --- an embedder that fails --------------------------------------------------------------------------------


def test_an_embedder_that_is_down_for_a_while_costs_nothing_but_the_while(memory: MemoryWorld) -> None:
    memory.words.is_down = True
    assert set(memory.say("pet", "Ana has a dog").not_yet_in) == {"vector"}
    recalled = memory.recalled("dog")
    assert (set(recalled.unanswered), len(recalled.hits)) == ({"vector"}, 1)
    memory.words.is_down = False
    memory.until_agreed()
    assert memory.found("pet dog") == {"Ana has a dog": ALL}


def test_a_text_that_the_embedder_refuses_is_named_and_found_otherwise_and_holds_up_nothing(
    memory: MemoryWorld,
) -> None:
    memory.words.refused = "cursed"
    for number in range(5):
        memory.say(f"before{number}", f"number {number}", is_verified=False)
    done = memory.say("relic", "a cursed relic", is_verified=False)
    assert set(done.not_yet_in) == {"vector"}
    assert memory.say("pet", "Ana has a dog", is_verified=False).not_yet_in == {}
    assert memory.found("pet dog")["Ana has a dog"] == ALL
    assert memory.found("relic cursed")["a cursed relic"] == {"keyword", "exact_key"}
    assert memory.do(memory.service.counts()).parked == {"vector": 1}
    memory.kill("vector")
    for number in range(5):
        assert "vector" in memory.found(f"number {number}")[f"number {number}"]


def test_a_refused_value_does_not_leave_the_vector_of_the_one_before(memory: MemoryWorld) -> None:
    memory.words.refused = "cursed"
    memory.say("relic", "a golden crown")
    memory.say("relic", "a cursed relic", is_verified=False)
    assert "vector" not in memory.found("golden crown").get("a cursed relic", set())


def test_a_refused_text_is_tried_again_when_the_service_starts(memory: MemoryWorld) -> None:
    memory.words.refused = "cursed"
    memory.say("relic", "a cursed relic")
    memory.restart()
    memory.until(lambda: memory.do(memory.service.counts()).parked == {"vector": 1})
    memory.words.refused = ""
    memory.restart()
    memory.until_agreed()
    assert memory.found("relic cursed") == {"a cursed relic": ALL}
    assert memory.do(memory.service.counts()).parked == {}


def test_an_embedder_that_refuses_everything_is_waited_for(memory: MemoryWorld) -> None:
    memory.words.is_without_key = True
    for number in range(3):
        assert set(memory.say(f"k{number}", f"value {number}").not_yet_in) == {"vector"}
    time.sleep(1.0)
    assert memory.do(memory.service.counts()).parked == {}
    memory.words.is_without_key = False
    memory.until_agreed()
    assert memory.found("k2 value 2")["value 2"] == ALL


def test_another_embedder_is_noticed_keywords_go_on_and_reindex_embeds_anew(memory: MemoryWorld) -> None:
    memory.say("pet", "Ana has a dog")
    memory.until_agreed()
    memory.stop()
    memory.kill()
    memory.words.model, memory.words.dimensions = "other-words", 16
    memory.start()
    recalled = memory.recalled("pet dog")
    assert {place.channel for place in recalled.hits[0].ranks} == {"keyword", "exact_key"}
    assert "reindex" in recalled.unanswered["vector"]
    assert "reindex" in memory.say("car", "Ana drives a van").not_yet_in["vector"]
    time.sleep(0.5)
    assert memory.vector.calls["rebuild"] == 0
    assert memory.do(memory.service.reindex("vector")) == 2
    assert memory.found("pet dog")["Ana has a dog"] == ALL
    memory.until_agreed()
    with_models = memory.do(memory.service._read(lambda readers: readers.scan.embedded_models()))
    assert with_models == {("other-words", 16): 2}


# --- reindexing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_reindexing_goes_on_beside_writes_and_recalls(memory: MemoryWorld, kind: IndexKind) -> None:
    say_many(memory, 600)

    async def busy() -> int:
        reindexed = asyncio.create_task(memory.service.reindex(kind))
        number = 0
        while not reindexed.done():
            await memory.service.remember(memory.fact(f"k{number}", f"changed to{number}", is_verified=False))
            await memory.service.forget(AGENT, AGENT_WIDE, f"k{number + 300}")
            recalled = await memory.service.recall(RecallQuery(visible=sees(), text=f"changed to{number}"))
            assert f"changed to{number}" in [hit.memory.value for hit in recalled.hits if not hit.is_filled]
            number += 1
        return await reindexed

    assert 300 <= memory.do(busy()) <= 600
    memory.until_agreed()


def test_an_index_that_dies_while_it_is_made_anew_is_completed_by_itself(memory: MemoryWorld) -> None:
    say_many(memory, 600)

    async def interrupted() -> None:
        reindexing = asyncio.create_task(memory.service.reindex("vector"))
        await asyncio.sleep(0.2)
        memory.vector.kill()
        await asyncio.wait([reindexing])

    memory.do(interrupted())
    memory.until_agreed()
    assert "vector" in memory.found("value number299")["value number299"]


# --- the end -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks", range(8))
def test_the_service_ends_whatever_it_is_about_to_do(memory: MemoryWorld, ticks: int) -> None:
    memory.say("pet", "Ana has a dog", is_verified=False)
    memory.vector.fault = "down"
    memory.say("car", "Ana drives a van", is_verified=False)

    async def end() -> None:
        feed = memory.service._feeds["vector"]
        feed.wake()
        for _ in range(ticks):
            await asyncio.sleep(0)
        ending = asyncio.create_task(feed.stop())
        done, _ = await asyncio.wait([ending], timeout=5)
        await memory.service.stop()
        assert done

    memory.do(end())
    memory.store.close()
    memory.vector.fault = None
    memory.start()
    memory.until_agreed()


def test_a_call_that_comes_too_late_is_told_to_repeat_itself(memory: MemoryWorld) -> None:
    memory.do(memory.service.stop())
    for late in (lambda: memory.say("pet", "Ana has a dog"), lambda: memory.do(memory.service.page(sees()))):
        with pytest.raises(FileClosedError) as told:
            late()
        assert told.value.retryable
    memory.store.close()
    memory.start()
    assert memory.active() == {}
