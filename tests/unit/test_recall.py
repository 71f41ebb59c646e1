"""How what the channels found becomes one list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.jobs.recall import Found, exact_key_found, found_by_id, fuse, most_used, rank, recall
from perdure.jobs.recalled import CHANNELS, Channel, within_budget
from perdure.storage.memory_records import KeyMatch, Memory, Touch
from perdure.storage.settings import RecallSettings
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import a_memory, memory_id

SETTINGS = RecallSettings()
WEIGHTS: Mapping[Channel, float] = {"vector": 1.0, "keyword": 1.0, "exact_key": 1.5}
DAY_S = 86_400


def found(*pairs: tuple[Memory, float]) -> list[Found]:
    return [Found(memory=memory, relevance=relevance) for memory, relevance in pairs]


def rows(hits: Iterable[Any]) -> list[int]:
    return [hit.memory.row_id for hit in hits]


def touch(row: int, days_ago: float, count: int = 0) -> Touch:
    return Touch(row_id=row, touched_s=at(0).timestamp() - days_ago * DAY_S, access_count=count)


def looked_up(wanted: Iterable[int]) -> dict[int, Memory]:
    return {row: a_memory(row) for row in wanted}


memories = st.integers(1, 12).map(lambda row: a_memory(row, 0.1 + row % 5 / 10, said=row % 3))
channels = st.dictionaries(
    st.sampled_from(CHANNELS),
    st.lists(st.tuples(memories, st.floats(0, 1, allow_subnormal=False)), max_size=25).map(lambda pairs: found(*pairs)),
)


@given(channels)
def test_every_memory_is_there_once_with_the_sum_of_its_places(given_channels: dict[Channel, list[Found]]) -> None:
    hits = fuse(given_channels, SETTINGS)
    listed = rows(hits)
    assert len(listed) == len(set(listed))
    for hit in hits:
        assert hit.score == pytest.approx(sum(WEIGHTS[place.channel] / (60 + place.rank) for place in hit.ranks))
        assert len({place.channel for place in hit.ranks}) == len(hit.ranks) > 0
    for channel, all_found in given_channels.items():
        different = len({each.memory.row_id for each in all_found})
        places = sorted(place.rank for hit in hits for place in hit.ranks if place.channel == channel)
        assert places == list(range(1, (min(different, 15) if channel == "keyword" else different) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(channels, st.randoms(use_true_random=False))
def test_the_order_in_which_a_channel_answers_makes_no_difference(
    given_channels: dict[Channel, list[Found]], random: Any
) -> None:
    shuffled = {channel: random.sample(each, len(each)) for channel, each in given_channels.items()}
    assert fuse(shuffled, SETTINGS) == fuse(given_channels, SETTINGS)


@given(channels, memories, st.sampled_from(CHANNELS))
def test_being_found_by_one_more_channel_first_never_lowers_a_memory(
    given_channels: dict[Channel, list[Found]], memory: Memory, channel: Channel
) -> None:
    before = fuse(given_channels, SETTINGS)
    more = {**given_channels, channel: [*given_channels.get(channel, []), *found((memory, 9.0))]}
    after = fuse(more, SETTINGS)
    if memory.row_id in rows(before):
        assert rows(after).index(memory.row_id) <= rows(before).index(memory.row_id)
    assert memory.row_id in rows(after)


@given(st.permutations([0.5, 0.6, 0.85]), st.permutations([0.8, 0.795, 0.79]))
def test_of_what_says_the_same_the_surer_comes_first(confidences: list[float], relevances: list[float]) -> None:
    same = [a_memory(row, confidence) for row, confidence in enumerate(confidences, start=1)]
    answers: dict[Channel, list[Found]] = {
        "vector": found(*zip(same, relevances, strict=True)),
        "keyword": found(*zip(same, reversed(relevances), strict=True)),
    }
    assert [hit.memory.confidence for hit in fuse(answers, SETTINGS)] == [0.85, 0.6, 0.5]


def test_what_is_clearly_more_relevant_comes_first_however_unsure() -> None:
    ranked = rank(found((a_memory(1, 0.9), 0.5), (a_memory(2, 0.1), 0.8)), 0.02)
    assert rows(ranked) == [2, 1]


def test_a_band_reaches_from_its_best_and_does_not_drift() -> None:
    steps = found(*((a_memory(row, row / 10), 1.0 - row * 0.015) for row in range(1, 7)))
    assert rows(rank(steps, 0.02)) == [2, 1, 4, 3, 6, 5]
    assert rows(rank(steps, 0.0)) == [1, 2, 3, 4, 5, 6]


def test_of_equally_sure_memories_of_like_relevance_the_one_said_last_comes_first() -> None:
    ranked = rank(found((a_memory(1, said=5), 0.8), (a_memory(2, said=9), 0.8), (a_memory(3, said=5), 0.8)), 0.02)
    assert rows(ranked) == [2, 3, 1]


def test_equal_scores_of_different_channels_are_decided_by_confidence() -> None:
    answers: dict[Channel, list[Found]] = {
        "vector": found((a_memory(1, 0.5), 0.9), (a_memory(2, 0.9), 0.1)),
        "keyword": found((a_memory(2, 0.9), 9.0), (a_memory(1, 0.5), 2.0)),
    }
    assert rows(fuse(answers, SETTINGS)) == [2, 1]


def test_the_best_exact_key_stands_before_the_best_of_one_other_channel() -> None:
    answers: dict[Channel, list[Found]] = {
        "vector": found((a_memory(1, 0.9), 0.9)),
        "keyword": found((a_memory(2, 0.9), 9.0)),
        "exact_key": found((a_memory(3, 0.1), 2), (a_memory(4, 0.1), 1)),
    }
    assert rows(fuse(answers, SETTINGS))[:2] == [3, 4]


def test_a_hit_says_which_channels_found_it_where_and_why_it_is_filled() -> None:
    answers: dict[Channel, list[Found]] = {
        "vector": found((a_memory(1), 0.9), (a_memory(2), 0.5)),
        "exact_key": found((a_memory(2), 1)),
    }
    recalled = recall(answers, {"keyword": "no index"}, [touch(7, 0)], looked_up, at(0), SETTINGS)
    assert [hit.explanation for hit in recalled.hits] == [
        "vector #2 (0.5), exact_key #1 (1): 0.04072",
        "vector #1 (0.9): 0.01639",
        "filled up by use (0.700)",
    ]
    assert [hit.is_filled for hit in recalled.hits] == [False, False, True]
    assert recalled.unanswered == {"keyword": "no index"}
    assert recalled.accessed == (memory_id(2), memory_id(1))


def test_hits_of_an_index_on_what_is_no_longer_active_take_no_rank() -> None:
    first, second = a_memory(1), a_memory(2)
    stale = a_memory(3).vector_id
    hits = [(stale, 0.9), (first.vector_id, 0.8), (second.vector_id, 0.5), (first.vector_id, 0.7)]
    answers: dict[Channel, list[Found]] = {
        "vector": found_by_id(hits, {memory.vector_id: memory for memory in (first, second)}),
        "exact_key": exact_key_found([KeyMatch(memory=second, segments=2)]),
    }
    places = {
        hit.memory.row_id: [(place.channel, place.rank) for place in hit.ranks] for hit in fuse(answers, SETTINGS)
    }
    assert places == {2: [("vector", 2), ("exact_key", 1)], 1: [("vector", 1)]}


def test_the_list_is_filled_up_to_twenty_with_what_is_used_and_not_there_yet() -> None:
    answers: dict[Channel, list[Found]] = {"vector": found(*((a_memory(row), 1 / row) for row in range(1, 15)))}
    touches = [touch(row, days_ago=row) for row in range(1, 60)]
    recalled = recall(answers, {}, touches, looked_up, at(0), SETTINGS)
    assert rows(recalled.hits) == [*range(1, 11), *range(11, 21)]
    assert [bool(hit.ranks) for hit in recalled.hits] == [True] * 10 + [False] * 10
    assert rows(recall(answers, {}, touches, looked_up, at(0), SETTINGS, top_k=3).hits) == list(range(1, 21))
    assert len(recall(answers, {}, touches, looked_up, at(0), RecallSettings(fill_to=0)).hits) == 10


def test_a_memory_that_is_gone_when_it_is_looked_up_leaves_no_hole() -> None:
    recalled = recall({}, {}, [touch(1, 0), touch(2, 1)], lambda rows: {2: a_memory(2)}, at(0), SETTINGS)
    assert rows(recalled.hits) == [2]


def test_without_any_channel_and_any_memory_nothing_is_recalled() -> None:
    reasons: dict[Channel, str] = dict.fromkeys(CHANNELS, "down")
    recalled = recall({}, reasons, [], looked_up, at(0), SETTINGS)
    assert (recalled.hits, recalled.unanswered) == ((), reasons)


@given(
    st.dictionaries(st.integers(1, 60), st.tuples(st.floats(-3, 4_000), st.integers(0, 50)), max_size=60),
    st.sets(st.integers(1, 60)),
    st.integers(0, 70),
)
def test_the_most_used_are_those_of_the_formula(
    uses: dict[int, tuple[float, int]], excluded: set[int], count: int
) -> None:
    touches = [touch(row, days, times) for row, (days, times) in uses.items()]
    expected = {
        row: 0.7 * math.exp(-max(0, days) / 30) + 0.3 * math.log(times + 1) for row, (days, times) in uses.items()
    }
    best = most_used(touches, excluded, count, at(0), SETTINGS)
    left = expected.keys() - excluded
    assert len(best) == min(count, len(left))
    for row, score in best:
        assert score == pytest.approx(expected[row])
        left.remove(row)
    if best:
        assert all(expected[row] <= best[-1][1] + 1e-9 for row in left)
    assert [score for _, score in best] == sorted((score for _, score in best), reverse=True)


def test_of_equally_used_memories_the_newest_fill_the_list() -> None:
    assert [row for row, _ in most_used([touch(row, 5) for row in range(1, 9)], {8}, 3, at(0), SETTINGS)] == [7, 6, 5]


def test_what_does_not_fit_into_the_budget_is_passed_over_and_smaller_ones_behind_it_are_kept() -> None:
    hits = fuse({"vector": found(*((a_memory(row, value="x" * row * 10), 1 / row) for row in (1, 4, 2, 3)))}, SETTINGS)
    kept = within_budget(hits, 50, lambda memory: len(memory.value))
    assert rows(kept) == [1, 2]
    assert within_budget(hits, 0, lambda memory: len(memory.value)) == []
