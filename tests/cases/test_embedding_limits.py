"""Texts that are too long for an embedding model, and models whose vectors are of another length."""

from __future__ import annotations

import pytest

from perdure.jobs.embedded_embedder import EmbeddedEmbedder
from perdure.storage.errors import EmbeddingMismatchError
from perdure.storage.index_records import EmbeddingSpace
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.index_rows import EVERYTHING, drawn, text_row, vector_row

pytestmark = pytest.mark.cases


def test_a_table_of_another_length_is_refused_when_it_is_opened_and_keywords_go_on(tmp_path):
    """https://github.com/mem0ai/mem0/issues/3065: every insertion failed, or every search found nothing."""
    small, large = EmbeddingSpace(model="a", dimensions=64), EmbeddingSpace(model="b", dimensions=128)
    vectors = VectorIndex.open(tmp_path, "memory", small, IndexSettings(), may_create=True)
    words = KeywordIndex.open(tmp_path, "memory", IndexSettings(), may_create=True)
    vectors.upsert([vector_row("m", drawn(1, 1, 64))])
    words.upsert([text_row("m", "green tea")])
    vectors.flush()
    with pytest.raises(EmbeddingMismatchError, match="a with 64 dimensions, and the settings name b with 128"):
        VectorIndex.open(tmp_path, "memory", large, IndexSettings())
    assert [hit.source for hit in words.search("tea", EVERYTHING, 5)] == ["m"]
    anew = VectorIndex.rebuild(tmp_path, "memory", large, IndexSettings())
    anew.upsert([vector_row("m", drawn(1, 1, 128))])
    assert [hit.source for hit in anew.search(drawn(1, 1, 128)[0], EVERYTHING, 5)] == ["m"]


def test_what_is_far_inside_a_long_text_is_found_and_a_query_of_any_length_is_answered(tmp_path):
    """https://github.com/letta-ai/letta/issues/1453, https://github.com/mem0ai/mem0/pull/6981: a text over the
    model's limit was an error, left out without a word, or stored by its beginning alone.
    """
    embedder = EmbeddedEmbedder()
    space = EmbeddingSpace(model=embedder.model, dimensions=embedder.dimensions)
    index = VectorIndex.open(tmp_path, "memory", space, IndexSettings(), may_create=True)
    minutes = "The council discussed the budget of the public library at great length. " * 90
    index.upsert([vector_row("long", embedder.embed_chunks(f"{minutes}Ana is allergic to peanuts. {minutes}").vectors)])
    for number, text in enumerate(["The train to Porto is late.", "The library is closed.", "Bo plays the piano."]):
        index.upsert([vector_row(f"short {number}", embedder.embed_documents([text]))])
    asked = embedder.embed_queries(["What is Ana allergic to?"])[0]
    assert index.search(asked, EVERYTHING, 1)[0].source == "long"
    endless = embedder.embed_queries(["Who plays the piano? " * 5000])[0]
    assert index.search(endless, EVERYTHING, 1)[0].source == "short 2"
