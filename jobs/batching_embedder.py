"""Dynamic batching: texts that wait while the embedder is at work go to it together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

from ..storage.errors import PerdureError
from .embedder import EmbeddedText, Embedder, Vectors

SURELY_WHOLE_CHARS = 400
"""A text of so many characters fits every embedder; longer ones may be cut into chunks."""
MOST_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class _Request:
    texts: Sequence[str]
    is_query: bool
    answer: Future[list[EmbeddedText]]


class BatchingEmbedder:
    """Asks an embedder from one thread, for everybody. It is made with the first request."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        threading.Thread(target=self._run, name="embedder", daemon=True).start()

    @property
    def space(self) -> tuple[str, int]:
        """Name and dimensions of the vectors."""
        return self._embedder.model, self._embedder.dimensions

    def embed(self, texts: Sequence[str], *, is_query: bool) -> list[EmbeddedText]:
        """The vectors of texts to search by, or to be found: those of any length, in chunks. Raises as `Embedder`."""
        if not texts:
            return []
        request = _Request(texts, is_query, Future())
        self._requests.put(request)
        return request.answer.result()

    def _run(self) -> None:
        while True:
            batch = [self._requests.get()]
            while not self._requests.empty() and sum(len(request.texts) for request in batch) < MOST_TOGETHER:
                batch.append(self._requests.get())
            for is_query in (True, False):
                self._answer([request for request in batch if request.is_query == is_query], is_query)

    def _answer(self, requests: Sequence[_Request], is_query: bool) -> None:
        if not requests:
            return
        try:
            found = iter(self._embedded([text for request in requests for text in request.texts], is_query))
            for request in requests:
                request.answer.set_result([next(found) for _ in request.texts])
        except Exception as error:  # noqa: BLE001 - goes to those who asked
            if len(requests) > 1 and not (isinstance(error, PerdureError) and error.retryable):
                for request in requests:  # one of them may be to blame, and the others are not to pay for it
                    self._answer([request], is_query)
                return
            for request in requests:
                request.answer.set_exception(error)

    def _embedded(self, texts: Sequence[str], is_query: bool) -> list[EmbeddedText]:
        if is_query:
            return [_whole(row) for row in _rows(self._embedder.embed_queries(texts))]
        short = [text for text in texts if len(text) <= SURELY_WHOLE_CHARS]
        vectors = iter(_rows(self._embedder.embed_documents(short)) if short else ())
        return [
            _whole(next(vectors)) if len(text) <= SURELY_WHOLE_CHARS else self._embedder.embed_chunks(text)
            for text in texts
        ]


def _rows(vectors: Vectors) -> list[Vectors]:
    return [vectors[place : place + 1] for place in range(len(vectors))]


def _whole(vectors: Vectors) -> EmbeddedText:
    return EmbeddedText(vectors=vectors, is_whole=True)
