"""The vector index: what is near, in which scope, and that memory and disk say the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.storage.errors import EmbeddingMismatchError, IndexDamagedError, IndexUnavailableError, InvalidInputError
from perdure.storage.index_records import EmbeddingSpace, SourceId, VectorRow
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.index_rows import (
    ANA,
    COLD,
    EVERYTHING,
    LENGTH,
    SETTINGS,
    SPACE,
    drawn,
    is_in,
    later,
    nearest,
    scope,
    unit,
    vector_row,
)


def opened(folder: Path, settings: IndexSettings = SETTINGS) -> VectorIndex:
    return VectorIndex.open(folder, "memory", SPACE, settings, may_create=True)


def found(index: VectorIndex, *direction: float, limit: int = 10, within=EVERYTHING) -> list[str]:
    return [hit.source for hit in index.search(unit(*direction), within, limit)]


@pytest.fixture(params=[SETTINGS, COLD], ids=["hot", "cold"])
def index(request, tmp_path) -> VectorIndex:
    return opened(tmp_path, request.param)


# --- what is found -----------------------------------------------------------------------------------------


def test_the_nearest_come_first_with_their_cosine_and_a_zero_vector_scores_zero(index):
    index.upsert([vector_row("far", unit(0, 1)), vector_row("near", unit(1, 1)), vector_row("zero", unit())])
    hits = index.search(unit(1), EVERYTHING, 3)
    assert [hit.source for hit in hits] == ["near", "far", "zero"]
    assert [hit.score for hit in hits] == pytest.approx([2**-0.5, 0, 0], abs=1e-6)


def test_a_source_is_found_once_by_its_nearest_chunk(index):
    index.upsert([vector_row("long", np.stack([unit(0, 1), *[unit(1, 0.01 * n) for n in range(30)]]))])
    index.upsert([vector_row(f"short {n}", unit(1, 1 + n)) for n in range(3)])
    assert found(index, 1, limit=3) == ["long", "short 0", "short 1"]
    assert found(index, 0, 1, limit=4)[0] == "long"


def test_a_write_is_seen_by_the_next_search_and_a_new_revision_replaces_all_chunks(index):
    index.upsert([vector_row("a", drawn(1, 3)), vector_row("b", unit(0, 0, 1))])
    assert set(found(index, 1)) == {"a", "b"}
    index.upsert([vector_row("a", unit(1), revision=2)])
    assert index.search(unit(1), EVERYTHING, 1)[0].score == pytest.approx(1)
    index.flush()
    assert index._table.count() == 2
    index.delete([SourceId("a"), SourceId("never there")])
    assert found(index, 1) == ["b"]
    assert sorted(index.sources()) == [("b", 1)]


@pytest.mark.parametrize("is_written", [False, True])
def test_an_older_or_repeated_revision_changes_nothing(index, is_written):
    index.upsert([vector_row("a", unit(1), revision=5)])
    if is_written:
        index.flush()
    index.upsert([vector_row("a", unit(0, 1), revision=4), vector_row("a", unit(0, 0, 1), revision=5)])
    assert index.search(unit(1), EVERYTHING, 1)[0].score == pytest.approx(1)
    assert list(index.sources()) == [("a", 5)]


def test_what_was_deleted_may_come_back_under_any_revision(index):
    index.upsert([vector_row("a", drawn(1, 3), revision=5)])
    index.flush()
    index.delete([SourceId("a")])
    index.upsert([vector_row("a", unit(1), revision=1)])
    assert list(index.sources()) == [("a", 1)]
    assert index._table.count() == 1
    assert index.search(unit(1), EVERYTHING, 1)[0].score == pytest.approx(1)


def test_vectors_of_another_length_or_none_are_refused_and_nothing_of_the_call_is_taken(index):
    for wrong in (np.zeros((1, LENGTH + 1), np.float32), np.zeros((0, LENGTH), np.float32)):
        with pytest.raises(InvalidInputError):
            index.upsert([vector_row("a", unit(1)), vector_row("b", wrong)])
    with pytest.raises(InvalidInputError):
        index.search(np.zeros(LENGTH + 1, np.float32), EVERYTHING, 1)
    assert index.count() == 0


def test_an_empty_index_and_a_limit_of_none_find_nothing(index):
    assert found(index, 1) == []
    index.upsert([vector_row("a", unit(1))])
    assert found(index, 1, limit=0) == []


# --- scope -------------------------------------------------------------------------------------------------

ODD = ["O'Brien", "x' OR 1=1 --", '"', "\\", "a%", "_", ";", "line\nbreak", "🎉", "'", "''", "NULL", "FALSE", "ana"]


@pytest.mark.parametrize("odd", ODD)
def test_no_name_widens_or_empties_a_scope(index, odd):
    index.upsert([vector_row("mine", unit(1), agent=odd, contact=odd, conversation=odd, kind=odd, role=odd)])
    index.upsert([vector_row(f"other's {n}", unit(1), agent=f"{odd}{n}", contact=odd) for n in range(2)])
    index.upsert([vector_row("other contact's", unit(1), agent=odd, contact="else")])
    mine = scope(odd, [odd], conversations=(odd,), kinds=(odd,), roles=(odd,))
    assert found(index, 1, within=mine) == ["mine"]
    assert found(index, 1, within=scope(odd, [odd])) == ["mine"]
    assert found(index, 1, within=scope(f"{odd}3", None)) == []


@pytest.mark.parametrize("odd", ODD)
def test_a_source_of_any_name_is_replaced_and_deleted_alone(index, odd):
    index.upsert([vector_row(odd, drawn(1, 2)), vector_row(f"{odd}#1", unit(1)), vector_row("else", unit(1))])
    index.flush()
    index.upsert([vector_row(odd, unit(1), revision=2)])
    assert sorted(index.sources()) == sorted([(odd, 2), (f"{odd}#1", 1), ("else", 1)])
    index.delete([SourceId(odd)])
    assert sorted(index.sources()) == sorted([(f"{odd}#1", 1), ("else", 1)])


def test_a_contact_sees_its_own_and_agent_wide_rows_and_linked_contacts_each_others(index):
    index.upsert([vector_row(name, unit(1), contact=name) for name in ("bo", "cy", "di")])
    index.upsert([vector_row("all", unit(1)), vector_row("other agent's", unit(1), agent="eve", contact="bo")])
    assert found(index, 1, within=scope(contacts=["bo"])) == ["all", "bo"]
    assert found(index, 1, within=scope(contacts=["bo", "di"])) == ["all", "bo", "di"]
    assert found(index, 1, within=scope(contacts=["bo"], with_agent_wide=False)) == ["bo"]
    assert found(index, 1, within=scope()) == ["all"]
    assert found(index, 1, within=scope(with_agent_wide=False)) == []
    assert found(index, 1, within=scope(contacts=None)) == ["all", "bo", "cy", "di"]
    assert found(index, 1, within=scope(contacts=None, with_agent_wide=False)) == ["bo", "cy", "di"]


def test_a_contact_with_few_rows_far_from_the_query_gets_them_all(tmp_path):
    """https://github.com/lancedb/lancedb/issues/2761: a filter after the search left 16 of 322 rows."""
    settings = IndexSettings(hot_mib=0, flat_rows=1000, tidy_commits=10_000, tidy_rows=10_000)
    index = opened(tmp_path, settings)
    near = drawn(3, 4000) + 4 * unit(1)
    index.upsert([vector_row(f"n{n}", vector, contact="many") for n, vector in enumerate(near)])
    index.upsert([vector_row(f"f{n}", unit(-1, n), contact="few") for n in range(20)])
    index.flush()
    index.tidy()
    assert index._table.has_vector_index()
    assert len(found(index, 1, within=scope(contacts=["few"]))) == 10


moments = st.sampled_from([later(hours) for hours in (-1, 0, 0.5, 3)])
names = st.sampled_from(["a", "b", "c'"])
rows = st.builds(
    lambda source, seed, count, agent, contact, conversation, kind, role, at, revision: vector_row(
        f"s{source}", drawn(seed, count), agent=agent, contact=contact, conversation=conversation, kind=kind,
        role=role, at=at, revision=revision,
    ),
    st.integers(0, 12), st.integers(0, 10**6), st.integers(1, 3), names, st.none() | names, st.none() | names,
    st.none() | names, st.none() | names, moments, st.integers(1, 4),
)  # fmt: skip
some = st.none() | st.lists(names, max_size=2).map(tuple)
scopes = st.builds(
    lambda agent, contacts, wide, conversations, kinds, roles, begin, end: scope(
        agent, contacts, with_agent_wide=wide, conversations=conversations, kinds=kinds, roles=roles,
        created_from=begin, created_to=end,
    ),
    names, some, st.booleans(), some, some, some, st.none() | moments, st.none() | moments,
)  # fmt: skip
steps = st.lists(rows | st.integers(0, 12) | st.sampled_from(["flush", "tidy", "reopen", "rewrite"]), max_size=25)


@settings(max_examples=25)
@given(steps=steps, scopes=st.lists(scopes, min_size=1, max_size=4), limit=st.integers(1, 6))
def test_memory_and_table_find_what_plain_python_finds(tmp_path_factory, steps, scopes, limit):
    folder = tmp_path_factory.mktemp("index")
    index = opened(folder)
    expected: dict[str, VectorRow] = {}
    for step in steps:
        match step:
            case VectorRow():
                index.upsert([step])
                if step.source not in expected or expected[step.source].revision < step.revision:
                    expected[step.source] = step
            case int():
                index.delete([SourceId(f"s{step}")])
                expected.pop(f"s{step}", None)
            case "flush":
                index.flush()
            case "tidy":
                index.tidy()
            case "rewrite":
                index.delete_old_versions()
            case _:
                index.flush()
                index = opened(folder)
        index.search(unit(1), scopes[0], 1)
    index.flush()
    cold = opened(folder, COLD)
    assert sorted(cold.sources()) == sorted((row.source, row.revision) for row in expected.values())
    for within in scopes:
        query = drawn(7)[0]
        for searched in (index, cold):
            hits = searched.search(query, within, limit)
            assert [hit.score for hit in hits] == pytest.approx(
                nearest(list(expected.values()), query, within, limit), abs=1e-5
            )
            assert all(is_in(expected[hit.source], within) for hit in hits)


# --- memory, table and inverted index ----------------------------------------------------------------------


def test_memory_table_and_inverted_index_agree(tmp_path):
    settings = IndexSettings(flat_rows=2000, hot_mib=0)
    vectors = drawn(11, 6000, LENGTH)
    index = opened(tmp_path, settings)
    index.upsert([vector_row(f"m{n}", vector, contact=f"c{n % 3}") for n, vector in enumerate(vectors)])
    index.flush()
    index.tidy()
    assert index._table.has_vector_index()
    hot = opened(tmp_path)
    same = wanted = 0
    for query in drawn(12, 20, LENGTH):
        for within in (EVERYTHING, scope(contacts=["c1"])):
            exact = hot.search(query, within, 10)
            flat = index.search(query, within, 10, is_exact=True)
            assert [hit.source for hit in flat] == [hit.source for hit in exact]
            assert [hit.score for hit in flat] == pytest.approx([hit.score for hit in exact], abs=1e-5)
            same += len({hit.source for hit in index.search(query, within, 10)} & {hit.source for hit in exact})
            wanted += 10
    assert same / wanted > 0.95


def test_the_agents_searched_last_stay_in_memory_under_the_limit(tmp_path):
    index = opened(tmp_path, IndexSettings(hot_mib=1))
    for agent in ("a", "b", "c"):
        index.upsert([vector_row(f"{agent}{n}", unit(1, n), agent=agent) for n in range(1000)])
    index.upsert([vector_row(f"large{n}", unit(1, n), agent="large") for n in range(4000)])
    for agent in ("a", "b", "c", "large", "a", "c"):
        assert found(index, 1, limit=1, within=scope(agent)) == [f"{agent}0"]
    assert list(index._hot) == ["a", "c"]
    assert sum(hot.nbytes for hot in index._hot.values()) < 2**20


# --- the table ---------------------------------------------------------------------------------------------


def test_another_embedding_space_is_refused_with_both_names_and_the_way_out(tmp_path):
    opened(tmp_path).flush()
    other = EmbeddingSpace(model="other", dimensions=16)
    with pytest.raises(EmbeddingMismatchError, match="perdure reindex") as caught:
        VectorIndex.open(tmp_path, "memory", other, SETTINGS)
    assert "drawn with 8 dimensions" in str(caught.value)
    assert "other with 16 dimensions" in str(caught.value)
    rebuilt = VectorIndex.rebuild(tmp_path, "memory", other, SETTINGS)
    assert rebuilt.count() == 0
    assert VectorIndex.open(tmp_path, "memory", other, SETTINGS).count() == 0


def test_a_missing_table_is_no_empty_one(tmp_path):
    with pytest.raises(IndexDamagedError, match="perdure reindex") as caught:
        VectorIndex.open(tmp_path, "memory", SPACE, SETTINGS)
    assert isinstance(caught.value, IndexUnavailableError)
    assert not caught.value.retryable


@pytest.mark.parametrize("part", ["data", "_versions", "_indices"])
@pytest.mark.parametrize("damage", ["gone", "cut", "zeros"])
def test_a_damaged_table_is_a_typed_error_and_can_be_rebuilt(tmp_path, part, damage):
    index = opened(tmp_path)
    index.upsert([vector_row(f"m{n}", unit(1, n)) for n in range(100)])
    index.flush()
    index.tidy()
    for file in (tmp_path / "memory_vectors.lance" / part).rglob("*"):
        if file.is_file():
            size = file.stat().st_size
            if damage == "gone":
                file.unlink()
            elif damage == "cut":
                os.truncate(file, size // 2)
            else:
                file.write_bytes(bytes(size))
    with pytest.raises(IndexDamagedError, match="perdure reindex"):
        found(VectorIndex.open(tmp_path, "memory", SPACE, SETTINGS), 1)
    rebuilt = VectorIndex.rebuild(tmp_path, "memory", SPACE, SETTINGS)
    rebuilt.upsert([vector_row("m", unit(1))])
    assert found(rebuilt, 1) == ["m"]


def test_memories_and_messages_are_apart(tmp_path):
    memories, messages = opened(tmp_path), VectorIndex.open(tmp_path, "message", SPACE, SETTINGS, may_create=True)
    memories.upsert([vector_row("memory", unit(1))])
    messages.upsert([vector_row("message", unit(1))])
    assert found(memories, 1) == ["memory"]
    assert found(messages, 1) == ["message"]


def test_counts_and_revisions_are_per_agent_and_see_what_waits(tmp_path):
    index = opened(tmp_path)
    index.upsert([vector_row("a", drawn(1, 3), revision=7), vector_row("b", unit(1), agent="eve")])
    assert (index.count(), index.count(ANA)) == (2, 1)
    assert list(index.sources(ANA)) == [("a", 7)]
