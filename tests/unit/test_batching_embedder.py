"""Texts that wait for the embedder go to it together, and each gets its own vectors or its own error."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from perdure.jobs.batching_embedder import MOST_TOGETHER, BatchingEmbedder
from perdure.jobs.embedder import Vectors
from perdure.storage.errors import ModelRequestError, ModelUnavailableError
from tests.fixtures.memory_service import CHUNK_WORDS, HashedWords


class WaitingWords(HashedWords):
    """One whose requests wait until they are let through, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()
        self.requests: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.may_go.wait(10)
        self.requests.append(len(texts))
        return super().embed_documents(texts)


def asked_together(words: WaitingWords, texts: Sequence[str]) -> list[Vectors | type[Exception]]:
    """What each of many threads is told that asks for one text while the embedder is at work."""
    batching = BatchingEmbedder(words)

    asked = threading.Semaphore(0)

    def ask(text: str) -> Vectors | type[Exception]:
        asked.release()
        try:
            [embedded] = batching.embed([text], is_query=False)
        except (ModelRequestError, ModelUnavailableError) as error:
            return type(error)
        return embedded.vectors

    with ThreadPoolExecutor(len(texts)) as threads:
        answers = [threads.submit(ask, text) for text in texts]
        for _ in texts:
            asked.acquire()
        time.sleep(0.05)  # the last one is on its way into the queue
        words.may_go.set()
        return [answer.result(10) for answer in answers]


def test_texts_that_wait_share_a_request_and_each_gets_its_own_vector() -> None:
    words = WaitingWords()
    texts = [f"text number{number}" for number in range(40)]
    answers = asked_together(words, texts)
    assert max(words.requests[:2]) >= len(texts) // 2
    for answer, text in zip(answers, texts, strict=True):
        assert isinstance(answer, np.ndarray)
        assert np.array_equal(answer, words.embed_documents([text]))
    assert max(words.requests) <= MOST_TOGETHER


def test_a_text_that_is_refused_harms_none_of_those_that_came_with_it() -> None:
    words = WaitingWords()
    words.refused = "cursed"
    answers = asked_together(words, ["one", "a cursed relic", "two", "three"])
    assert answers[1] is ModelRequestError
    assert [isinstance(answer, np.ndarray) for answer in answers] == [True, False, True, True]


def test_an_embedder_that_is_down_is_asked_once_for_all_that_wait() -> None:
    words = WaitingWords()
    words.is_down = True
    assert set(asked_together(words, [f"text {number}" for number in range(30)])) == {ModelUnavailableError}
    assert len(words.requests) <= 2


def test_long_texts_get_a_vector_for_each_chunk_and_queries_one() -> None:
    batching = BatchingEmbedder(HashedWords())
    long = " ".join(f"word{number}" for number in range(3 * CHUNK_WORDS))
    chunked, short = batching.embed([long, "short"], is_query=False)
    assert (len(chunked.vectors), len(short.vectors)) == (3, 1)
    [query] = batching.embed([long], is_query=True)
    assert len(query.vectors) == 1


@pytest.mark.parametrize("is_query", [True, False])
def test_nothing_asked_is_nothing_answered(is_query: bool) -> None:
    assert BatchingEmbedder(HashedWords()).embed([], is_query=is_query) == []
