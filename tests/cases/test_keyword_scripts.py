"""Keyword search that found nothing in scripts without spaces, or nothing of what was just written."""

from __future__ import annotations

import pytest

from perdure.storage.index_records import SourceId
from perdure.storage.keyword_index import KeywordIndex
from tests.fixtures.index_rows import EVERYTHING, SETTINGS, text_row

pytestmark = pytest.mark.cases

SENTENCES = {
    "chinese": ("她每天在北京大学学习数学", "大学"),
    "japanese": ("彼は毎朝東京駅で新聞を買う", "東京"),
    "korean": ("할머니가 김치를 담그셨다", "김치"),
    "russian": ("Мы купили старую книгу в Москве", "книга"),
    "arabic": ("زار المهندس مدينة بغداد القديمة", "بغداد"),
    "hindi": ("वह हर सुबह बगीचे में फूल लगाती है", "फूल"),
    "mixed": ("公司的ERP系统上线了", "系统"),
    "mixed latin": ("公司的ERP系统上线了", "ERP"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_an_inner_word_of_any_script_is_found_without_a_dictionary_from_elsewhere(tmp_path, name):
    """https://github.com/lancedb/lancedb/issues/2168, https://github.com/lancedb/lancedb/issues/2238,
    https://github.com/thedotmack/claude-mem/issues/3801, https://github.com/xorbitsai/xagent/pull/2421: a sentence
    was one token, or its dictionary was missing.
    """
    sentence, word = SENTENCES[name]
    index = KeywordIndex.open(tmp_path, "memory", SETTINGS, may_create=True)
    index.upsert([text_row(other, text) for other, (text, _) in SENTENCES.items() if text != sentence])
    index.upsert([text_row("it", sentence)])
    assert [hit.source for hit in index.search(word, EVERYTHING, 1)] == ["it"]


def test_what_was_just_written_is_found_and_what_was_just_replaced_or_deleted_is_not(tmp_path):
    """https://github.com/duckdb/duckdb/issues/3543, https://github.com/duckdb/duckdb/issues/5351,
    https://github.com/duckdb/duckdb-fts/issues/62, https://github.com/lancedb/lancedb/issues/1365: new rows were
    found after a rebuild only, and an update left the old words in.
    """
    index = KeywordIndex.open(tmp_path, "memory", SETTINGS, may_create=True)

    def found(word):
        return [hit.source for hit in index.search(word, EVERYTHING, 9)]

    index.upsert([text_row("pet", "Ana keeps a parrot")])
    assert found("parrot") == ["pet"]
    index.upsert([text_row("pet", "Ana keeps a tortoise", revision=2)])
    assert (found("parrot"), found("tortoise")) == ([], ["pet"])
    index.delete([SourceId("pet")])
    assert found("tortoise") == []
