"""The keyword index: what has the words, in any script, and that a query is text and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.storage.errors import IndexDamagedError
from perdure.storage.index_records import SourceId
from perdure.storage.keyword_forms import STOP_WORDS
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from tests.fixtures.index_rows import ANA, EVERYTHING, SETTINGS, later, scope, text_row

TEXTS = {
    "english": "The foxes were running through well-known streets near master's house",
    "accents": "Crème brûlée at the café with a naïve résumé, Łódź, straße, Ångström",
    "korean": "저는 김치를 좋아해요. 서울에서 살아요",
    "russian": "Она живёт в Москве и любит собак",
    "chinese": "我在北京大学学习中文，喜欢ERP系统",
    "japanese": "東京で寿司を食べました。カメラが好きです",
    "arabic": "أسكن في القاهرة وأحب الكتاب",
    "hindi": "मुझे दिल्ली में रहना पसंद है",
    "thai": "ผมชอบกินข้าวที่กรุงเทพ",
    "greek": "Μένω στην Αθήνα",
    "hebrew": "אני גר בתל אביב",
    "paths": r"host 10.0.0.7, file C:\tmp\x, /etc/perdure.toml; call HttpServer.start_all(), A & B, Message: {0}",
    "digest": "commit 68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> KeywordIndex:
    index = opened(tmp_path_factory.mktemp("keywords"))
    index.upsert([text_row(name, text, contact="bo") for name, text in TEXTS.items()])
    index.upsert([text_row("secret", " ".join(TEXTS.values()), agent="eve")])
    index.upsert([text_row("other contact's", " ".join(TEXTS.values()), contact="cy")])
    return index


BO = scope(contacts=["bo"])


def opened(folder: Path, settings: IndexSettings = SETTINGS) -> KeywordIndex:
    return KeywordIndex.open(folder, "memory", settings, may_create=True)


def found(index: KeywordIndex, query: str, within=BO, limit: int = 15) -> list[str]:
    return [hit.source for hit in index.search(query, within, limit)]


# --- languages and forms -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("fox", "english"),
        ("RUNS", "english"),
        ("well-known", "english"),
        ("known", "english"),
        ("master", "english"),
        ("masters", "english"),
        ("creme brulee", "accents"),
        ("CAFÉ", "accents"),
        ("resume", "accents"),
        ("Lodz", "accents"),
        ("strasse", "accents"),
        ("angstrom", "accents"),
        ("김치", "korean"),
        ("김치를", "korean"),
        ("김치가", "korean"),
        ("서울", "korean"),
        ("Москва", "russian"),
        ("живет", "russian"),
        ("собака", "russian"),
        ("北京", "chinese"),
        ("京大", "chinese"),
        ("ERP", "chinese"),
        ("中文", "chinese"),
        ("寿司", "japanese"),
        ("食べ", "japanese"),
        ("カメラ", "japanese"),
        ("ｶﾒﾗ", "japanese"),
        ("القاهرة", "arabic"),
        ("كتاب", "arabic"),
        ("दिल्ली", "hindi"),
        ("पसंद", "hindi"),
        ("กิน", "thai"),
        ("กรุงเทพ", "thai"),
        ("Αθηνα", "greek"),
        ("אביב", "hebrew"),
        ("10.0.0.7", "paths"),
        (r"C:\tmp\x", "paths"),
        ("perdure.toml", "paths"),
        ("perdure", "paths"),
        ("server", "paths"),
        ("HttpServer", "paths"),
        ("start_all", "paths"),
        ("Message: {0}", "paths"),
        ("68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743", "digest"),
        ("dogs OR foxes", "english"),
    ],
)
def test_a_word_is_found_in_its_script_and_form_and_nothing_outside_the_scope(index, query, name):
    assert found(index, query)[:1] == [name]
    assert set(found(index, query)) <= TEXTS.keys()
    assert "secret" not in found(index, query, within=EVERYTHING)


@pytest.mark.parametrize("query", ["강아지를", "рост", "上海", "ソウル", "كلب", "बिल्ली", "cat"])
def test_a_word_that_is_not_there_finds_nothing_though_pieces_of_it_are(index, query):
    assert found(index, query) == []


@pytest.mark.parametrize(
    "query",
    [
        "", " ", "\n\t", '"', '""', "'", "OR", "AND", "NOT", "NEAR", "+a -b", "*", "fo*", "?", ")", "(", "(fox",
        "fox)", "fox~2", "fox^3", "words:fox", "agent:eve", "fox AND", "A & B", "Message: {0}", "{}", "[a TO z]", "\\",
        "/", "//", "C:\\tmp\\x", "10.0.0.7", "well-known", "x' OR 1=1 --", "' OR agent = 'eve", "!!!", "…—–", "🎉",
        "👩\u200d👩\u200d👧", "\0", "\ud83d", "你好", "مرحبا", "नमस्ते", "the", "of the and", "\u202eabc", "e\u0301",
        "%", "_", ";", "$(x)", "<b>",
    ],
)  # fmt: skip
def test_no_query_raises_or_widens_the_scope(index, query):
    assert set(found(index, query)) <= TEXTS.keys()
    assert set(found(index, query, within=scope(contacts=["nobody"]))) == set()


@settings(max_examples=60)
@given(query=st.text(max_size=40))
def test_any_text_is_a_query(index, query):
    assert set(found(index, query)) <= TEXTS.keys()


def test_a_query_of_a_hundred_thousand_characters_is_answered_by_its_beginning(index):
    assert found(index, "fox " + "word " * 20_000) == ["english"]
    assert found(index, "x" * 100_000) == []
    assert found(index, "김치 " + "가나다라 " * 20_000) == ["korean"]


def test_only_the_listed_words_are_not_looked_for(tmp_path):
    """Lance's list for English has `dog`, `cat`, `son`, `care`, `city`, `war` and some fifty more such words."""
    index = opened(tmp_path)
    spoken = (Path(__file__).parents[1] / "fixtures" / "locomo_small.json").read_text(encoding="utf-8")
    others = ["dog", "cats", "son", "care", "cities", "war", "door", "minute", "come", "man", "sea", "end", "isn", "us"]
    words = {*re.findall(r"[a-z]+", spoken.lower()), *STOP_WORDS, *others, "don't", "it's", "they’ll", "master's"}
    index.upsert([text_row(word, f"{word} {word}") for word in words])
    lost = {word for word in words if word not in found(index, word, limit=50)}
    assert lost == STOP_WORDS | {"don't", "it's", "they’ll"}


# --- writing -----------------------------------------------------------------------------------------------


def test_a_search_sees_every_write_before_it(tmp_path):
    index = opened(tmp_path)
    for number in range(40):
        index.upsert([text_row(f"m{number}", f"alpha{number} omega")])
        assert found(index, f"alpha{number}") == [f"m{number}"]
    index.upsert([text_row("m7", "beta", revision=2)])
    assert found(index, "alpha7") == []
    assert found(index, "beta") == ["m7"]
    index.upsert([text_row("m7", "stale", revision=1)])
    assert found(index, "stale") == []
    index.delete([SourceId("m7")])
    assert found(index, "beta") == []
    assert len(found(index, "omega", limit=100)) == 39


def test_more_and_rarer_words_come_first_and_equals_in_order_of_their_ids(tmp_path):
    index = opened(tmp_path)
    index.upsert([text_row(f"b{n}", "tea with milk") for n in (3, 1, 2)] + [text_row("x", "nothing of it")] * 3)
    index.upsert([text_row("c", "tea with saffron"), text_row("a", "saffron with milk"), text_row("d", "bread")])
    assert found(index, "tea saffron") == ["c", "a", "b1", "b2", "b3"]
    assert found(index, "tea", limit=3) == ["b1", "b2", "b3"]


def test_filters_narrow_and_a_limit_counts_what_passes_them(tmp_path):
    index = opened(tmp_path)
    index.upsert([text_row(f"x{n}", "tea " * 5, contact="cy", at=later(1)) for n in range(50)])
    index.upsert([text_row("task", "tea", contact="bo", kind="task", at=later(2))])
    index.upsert([text_row("said", "tea", contact="bo", role="user", conversation="c1", at=later(3))])
    index.upsert([text_row("wide", "tea")])
    assert set(found(index, "tea", limit=3)) == {"task", "said", "wide"}
    assert found(index, "tea", within=scope(contacts=["bo"], kinds=("task",))) == ["task"]
    assert found(index, "tea", within=scope(contacts=["bo"], roles=("user",))) == ["said"]
    assert found(index, "tea", within=scope(contacts=["bo"], conversations=("c1",))) == ["said"]
    assert found(index, "tea", within=scope(contacts=["bo"], created_from=later(2), created_to=later(2))) == ["task"]
    assert found(index, "tea", limit=0) == []


def test_ids_and_revisions_are_listed_and_counted(tmp_path):
    index = opened(tmp_path)
    index.upsert([text_row("a#0", "x", revision=3), text_row("b'", "y", agent="eve")])
    assert sorted(index.sources()) == [("a#0", 3), ("b'", 1)]
    assert (index.count(), index.count(ANA)) == (2, 1)


def test_a_missing_or_damaged_table_is_a_typed_error_and_can_be_rebuilt(tmp_path):
    with pytest.raises(IndexDamagedError, match="perdure reindex"):
        KeywordIndex.open(tmp_path, "memory", SETTINGS)
    index = opened(tmp_path)
    index.upsert([text_row(f"m{n}", "tea") for n in range(100)])
    index.flush()
    index.tidy()
    for file in (tmp_path / "memory_words.lance" / "_indices").rglob("*"):
        if file.is_file():
            file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(IndexDamagedError, match="perdure reindex"):
        found(KeywordIndex.open(tmp_path, "memory", SETTINGS), "tea")
    rebuilt = KeywordIndex.rebuild(tmp_path, "memory", SETTINGS)
    assert found(rebuilt, "tea") == []
    rebuilt.upsert([text_row("m", "tea")])
    assert found(rebuilt, "tea") == ["m"]


def test_a_blob_of_a_megabyte_is_taken_in_bounded_time(tmp_path):
    index = opened(tmp_path)
    index.upsert([text_row("m", "tea " + "aB3x" * 250_000), text_row("한", "차 " + "가나다라마바사" * 30_000)])
    assert found(index, "tea") == ["m"]
    assert found(index, "다라") == ["한"]


def test_what_is_kept_beside_a_text_comes_back_and_is_not_searched(tmp_path):
    index = opened(tmp_path)
    index.upsert([replace(text_row("m1", "a porcupine"), payload='{"said": "zebra"}'), text_row("m2", "a hedgehog")])
    assert index.payloads([SourceId("m1"), SourceId("m2"), SourceId("m3")]) == {"m1": '{"said": "zebra"}', "m2": ""}
    assert index.search("zebra", EVERYTHING, 5) == []
    index.upsert([replace(text_row("m1", "a porcupine", revision=2), payload="new")])
    assert index.payloads([SourceId("m1")]) == {"m1": "new"}
