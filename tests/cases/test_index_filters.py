"""Names and texts that broke the filters and queries of other systems' indexes."""

from __future__ import annotations

import time

import pytest

from perdure.storage.index_records import SourceId
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.index_rows import EVERYTHING, SETTINGS, SPACE, drawn, scope, text_row, unit, vector_row

pytestmark = pytest.mark.cases


@pytest.mark.parametrize("name", ["O'Brien", "x' OR 1=1 --", 'say "hi"', "back\\slash", "a%b_c", "a;b\nc", "🎉"])
def test_a_deletion_by_a_name_with_quotes_takes_out_that_one_only(tmp_path, name):
    """https://github.com/cocoindex-io/cocoindex/pull/2119, https://github.com/crewAIInc/crewAI/pull/4714:
    a quote in an id broke the predicate of a deletion, or widened it to every row.
    """
    index = VectorIndex.open(tmp_path, "memory", SPACE, IndexSettings(hot_mib=0), may_create=True)
    index.upsert([vector_row(name, unit(1), contact=name), vector_row("else", unit(1), contact="else")])
    index.flush()
    assert [hit.source for hit in index.search(unit(1), scope(contacts=[name]), 9)] == [name]
    index.delete([SourceId(name)])
    assert [hit.source for hit in index.search(unit(1), EVERYTHING, 9)] == ["else"]


def test_a_deletion_of_thirteen_thousand_rows_takes_seconds(tmp_path):
    """https://github.com/topoteretes/cognee/pull/4235: one predicate for each id took half an hour for 13,207."""
    index = VectorIndex.open(tmp_path, "memory", SPACE, IndexSettings(), may_create=True)
    vectors = drawn(1, 13_000)
    index.upsert([vector_row(f"m{n}", vector) for n, vector in enumerate(vectors)])
    index.flush()
    assert index.count() == 13_000
    began = time.monotonic()
    index.delete([SourceId(f"m{n}") for n in range(13_000)])
    index.upsert([vector_row("kept", unit(1))])
    index.flush()
    assert time.monotonic() - began < 15
    assert index.sources() == [("kept", 1)]


@pytest.mark.parametrize(
    "query", ["A & B", "well-known", "Message: {0}", "dogs OR cats", "master's", "10.0.0.7", r"C:\tmp\x"]
)
def test_a_query_with_punctuation_finds_the_text_that_has_it(tmp_path, query):
    """https://github.com/lancedb/lancedb/issues/976, https://github.com/getzep/graphiti/issues/1144: punctuation
    and operators in what a user typed were syntax errors, or found nothing.
    """
    index = KeywordIndex.open(tmp_path, "memory", SETTINGS, may_create=True)
    index.upsert([text_row("it", f"They wrote {query} on the wall"), text_row("other", "Nobody came")])
    if query != "A & B":  # single letters and the article are no words to look for
        assert [hit.source for hit in index.search(query, EVERYTHING, 9)] == ["it"]
    assert "other" not in [hit.source for hit in index.search(query, EVERYTHING, 9)]


@pytest.mark.parametrize("query", ["*", '"', ")", "🎉", "&", "-", "", "\x00"])
def test_a_query_of_punctuation_alone_finds_nothing_and_raises_nothing(tmp_path, query):
    """https://github.com/lancedb/lancedb/issues/1617"""
    index = KeywordIndex.open(tmp_path, "memory", SETTINGS, may_create=True)
    index.upsert([text_row("it", 'It says * and " and ) and 🎉')])
    assert index.search(query, EVERYTHING, 9) == []
