"""Searches of what was said that found nothing, too little, or raised in other systems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.jobs.embedded_embedder import DIMENSIONS
from perdure.jobs.indexed_message import indexed_messages
from perdure.storage.settings import IndexSettings
from tests.fixtures.index_rows import drawn
from tests.fixtures.message_index import Messages, identity, said

pytestmark = pytest.mark.cases

HERE = identity("c", "ines")
SENTENCES = {
    "北京": "我在北京大学学习中文",
    "寿司": "東京で寿司を食べました",
    "김치": "저는 김치를 좋아해요",
    "Москва": "Она живёт в Москве и любит собак",
    "القاهرة": "أسكن في القاهرة وأحب الكتاب",
    "दिल्ली": "मुझे दिल्ली में रहना पसंद है",
    "系统": "我喜欢ERP系统",
    "ERP": "我喜欢ERP系统",
}
PUNCTUATED = (
    "well-known",
    "Message: {0}",
    "dogs OR cats",
    "master's",
    "10.0.0.7",
    r"C:\tmp\x",
)


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[Messages]:
    made = Messages(tmp_path)
    yield made
    made.close()


def test_a_word_inside_a_message_in_any_script_is_found(messages: Messages) -> None:
    """https://github.com/lancedb/lancedb/issues/2168, https://github.com/thedotmack/claude-mem/issues/3801: words
    that no space sets apart, and those of other alphabets, were found by no search.
    """
    texts = list(dict.fromkeys(SENTENCES.values()))
    filler = [said(2 * n + 1, f"Nothing to see here, number {n}.") for n in range(3 * len(texts))]
    spoken = [said(6 * n, text) for n, text in enumerate(texts)]
    messages.index(HERE, sorted([*spoken, *filler], key=lambda message: message.seq))
    for word, text in SENTENCES.items():
        for mode in ("keyword", "hybrid"):
            assert text in messages.texts(HERE, word, mode=mode, limit=3), (word, mode)


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_a_question_with_punctuation_is_text(messages: Messages, mode: str) -> None:
    """https://github.com/lancedb/lancedb/issues/976, https://github.com/getzep/graphiti/issues/1144: what looked
    like syntax was an error, or found nothing.
    """
    messages.index(HERE, [said(3 * n, f"They wrote {query} on the wall") for n, query in enumerate(PUNCTUATED)])
    for query in PUNCTUATED:
        assert f"They wrote {query} on the wall" in messages.texts(HERE, query, mode=mode, limit=4)
    for query in ("*", '"', ")", "🎉", "&", "A & B", "' OR 1=1 --", "\x00", "\ud83d"):
        assert len(messages.texts(HERE, query, mode=mode)) <= len(PUNCTUATED)


@pytest.mark.parametrize("hot_mib", [0, 256])
def test_a_contact_with_one_message_in_a_hundred_gets_as_many_hits_as_asked_for(tmp_path: Path, hot_mib: int) -> None:
    """https://github.com/lancedb/lancedb/issues/2761: filtered after the search, a scope gave 16 of its 322 rows."""
    messages = Messages(tmp_path, index=IndexSettings(hot_mib=hot_mib, flat_rows=1000, write_batch=1000))
    query = messages.query_vector("the parcel")
    vectors = drawn(7, 3000, DIMENSIONS)
    for start in range(0, 3000, 500):
        rows = []
        for n in range(start, start + 500):
            mine = n % 100 == 0
            where = HERE if mine else identity("other", "rui")
            [each] = indexed_messages(where, [said(n, f"parcel {n}")], [])
            near = query + 0.01 * vectors[n]
            rows.append((each.text_row, each.vector_row((-near if mine else near)[None])))
        messages.apply([text for text, _ in rows], [vector for _, vector in rows])
    for mode in ("keyword", "semantic", "hybrid"):
        hits = messages.recall(HERE, "the parcel", mode=mode).hits
        assert [hit.message.contact for hit in hits] == ["ines"] * 10, mode
    messages.close()
