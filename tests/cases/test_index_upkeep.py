"""What many small writes, deletions and clients at once did to other systems' LanceDB tables."""

from __future__ import annotations

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from perdure.storage.index_records import SourceId
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.index_rows import EVERYTHING, SPACE, drawn, text_row, unit, vector_row

pytestmark = pytest.mark.cases

MOST_FILES = 200
UPSERTS = int(os.environ.get("PERDURE_INDEX_UPSERTS", "1000"))


def files_of(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def search_s(index: KeywordIndex) -> float:
    times = []
    for _ in range(15):
        began = time.perf_counter()
        index.search("tea saffron", EVERYTHING, 10)
        times.append(time.perf_counter() - began)
    return median(times)


def test_single_upserts_leave_few_files_and_versions_and_a_fast_search(tmp_path):
    """https://github.com/topoteretes/cognee/issues/4684, https://github.com/xorbitsai/xagent/pull/1195: without
    upkeep, thousands of versions and files slowed every search down. Some of ours are each seen by a search.
    """
    vectors = VectorIndex.open(tmp_path, "memory", SPACE, IndexSettings(), may_create=True)
    words = KeywordIndex.open(tmp_path, "memory", IndexSettings(), may_create=True)
    words.upsert([text_row(f"old{n}", f"tea with word{n}") for n in range(2000)])
    words.flush()
    words.tidy()
    before_s = search_s(words)
    for number, vector in enumerate(drawn(1, UPSERTS)):
        vectors.upsert([vector_row(f"m{number}", vector)])
        words.upsert([text_row(f"m{number}", f"saffron number{number}")])
        if number % 10 == 0:
            assert words.search(f"number{number}", EVERYTHING, 1)[0].source == f"m{number}"
            vectors.flush()
    for index, name in ((vectors, "memory_vectors.lance"), (words, "memory_words.lance")):
        assert files_of(tmp_path / name) <= MOST_FILES
        assert index._table.versions <= MOST_FILES / 2
        assert index.count() >= UPSERTS
    if words.untidiness >= 1:
        words.tidy()
    assert search_s(words) < 3 * before_s + 0.01  # 1.5 at rest; a busy machine is given more


def test_writes_searches_and_upkeep_at_once_lose_nothing_and_fail_nowhere(tmp_path):
    """https://github.com/lancedb/lancedb/issues/1597, https://github.com/lancedb/lancedb/issues/725: writers in
    each other's way failed with commit conflicts, and a cleanup took files from under a search.
    """
    settings = IndexSettings(write_batch=4, tidy_commits=2, hot_mib=0)
    vectors = VectorIndex.open(tmp_path, "memory", SPACE, settings, may_create=True)
    words = KeywordIndex.open(tmp_path, "memory", settings, may_create=True)
    is_over = threading.Event()

    def write(writer: int) -> None:
        for number in range(12):
            source = f"w{writer}-{number}"
            vectors.upsert([vector_row(source, drawn(number, 2))])
            words.upsert([text_row(source, f"tea from {source}")])
            if number % 3 == 2:
                vectors.delete([SourceId(source)])
                words.delete([SourceId(source)])

    def read() -> int:
        for count in itertools.count():
            if is_over.is_set():
                return count
            vectors.search(unit(1), EVERYTHING, 5)
            words.search("tea", EVERYTHING, 5)
            vectors.sources()
        raise AssertionError

    with ThreadPoolExecutor(7) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = [pool.submit(write, writer) for writer in range(4)]
        for done in writers:
            done.result(60)
        vectors.delete_old_versions()
        words.delete_old_versions()
        is_over.set()
        assert all(done.result(60) > 0 for done in readers)
    left = sorted((f"w{writer}-{number}", 1) for writer in range(4) for number in range(12) if number % 3 != 2)
    assert sorted(vectors.sources()) == left
    assert sorted(words.sources()) == left
    assert vectors._table.count() == 2 * len(left)


def test_of_what_was_deleted_no_file_holds_a_trace(tmp_path):
    """https://github.com/topoteretes/cognee/issues/3526: deleted rows came back from an index."""
    vectors = VectorIndex.open(tmp_path, "memory", SPACE, IndexSettings(), may_create=True)
    words = KeywordIndex.open(tmp_path, "memory", IndexSettings(), may_create=True)
    secret = drawn(99)
    vectors.upsert([vector_row(f"m{n}", vector) for n, vector in enumerate(drawn(1, 300))])
    words.upsert([text_row(f"m{n}", f"tea number{n}") for n in range(300)])
    vectors.upsert([vector_row("secretsource", secret, contact="secretcontact")])
    words.upsert([text_row("secretsource", "the zanzibar code", contact="secretcontact")])
    for index in (vectors, words):
        index.flush()
        index.tidy()
    traces = {b"secretsource", b"secretcontact", b"zanzibar", secret.tobytes()}
    assert {trace for trace in traces if is_in_files(tmp_path, trace)} == traces  # guards the test itself
    for index in (vectors, words):
        index.delete([SourceId("secretsource")])
        index.delete_old_versions()
        assert index.count() == 300
    assert {trace for trace in traces if is_in_files(tmp_path, trace)} == set()
    assert words.search("zanzibar", EVERYTHING, 5) == []
    assert [hit.source for hit in words.search("number7", EVERYTHING, 5)] == ["m7"]
    assert vectors.search(drawn(1, 300)[7], EVERYTHING, 1)[0].source == "m7"


def is_in_files(folder: Path, trace: bytes) -> bool:
    return any(trace in file.read_bytes() for file in folder.rglob("*") if file.is_file())
