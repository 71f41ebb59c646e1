"""Embedders of any provider, through litellm."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from ..storage.settings import EmbeddingSettings, ModelSettings
from ..storage.text import clean_text
from .embedder import EmbeddedText, Vectors, unit_length
from .litellm_setup import litellm, missing_keys, own_server_arguments
from .model_failures import Failure, safe_cause
from .request_thread import Backoff, pieces_within

OVERLAP_SHARE = 1 / 8
"""Of a chunk, that it has in common with the one before."""
MAX_CHUNKS = 64
"""What comes after them has no vector."""


class LitellmEmbedder:
    """Asks the model that `embedding.model` names. Threads may share one instance.

    Keys, retries and time limits are those of `LitellmChat`. The vectors are scaled to unit length here.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        models: ModelSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = settings.model or ""
        self._settings = settings
        self._api_base = settings.api_base or models.api_base
        self._timeout_s = models.timeout_s
        self._sleep = sleep
        self._backoff = Backoff(max_retries=models.max_retries, random=random)
        self._monotonic = monotonic
        self._dimensions = settings.dimensions
        self._learning = threading.Lock()

    @property
    def model(self) -> str:
        """See `Embedder`."""
        return self._model

    @property
    def dimensions(self) -> int:
        """See `Embedder`; where the settings leave it open, the model is asked for a vector once."""
        with self._learning:
            if not self._dimensions:
                self._dimensions = len(self._answer(["dimensions"])[0])
            return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`; the first `embedding.max_chars` characters count."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        places = [place for place, text in enumerate(texts) if text and not text.isspace()]
        for begin in range(0, len(places), self._settings.batch):
            batch = places[begin : begin + self._settings.batch]
            vectors[batch] = self._answer([clean_text(texts[place][: self._settings.max_chars]) for place in batch])
        return unit_length(vectors)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return self.embed_documents(texts)

    def embed_chunks(self, text: str) -> EmbeddedText:
        """See `Embedder`; chunks of `embedding.max_chars` characters."""
        length = self._settings.max_chars
        step = length - int(length * OVERLAP_SHARE)
        begins = range(0, max(1, len(text) - length + step), step)[:MAX_CHUNKS]
        vectors = self.embed_documents([text[begin : begin + length] for begin in begins])
        return EmbeddedText(vectors=vectors, is_whole=len(text) <= begins[-1] + length)

    def _answer(self, texts: list[str]) -> Vectors:
        """The model's vectors for a batch, none of it blank."""
        attempts = 0
        while True:
            attempts += 1
            try:
                return next(
                    pieces_within(self._timeout_s, lambda: self._attempt(texts), lambda _: True, self._monotonic)
                )
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001  litellm's, openai's, httpx's and plain Python errors
                lacking = missing_keys(self._model, self._api_base)
                failure = Failure.of(
                    error, self._model, self._timeout_s, lacking, too_long="lower PERDURE_EMBEDDING__MAX_CHARS"
                )
                cause = safe_cause(error)
            pause_s = self._backoff.pause_before(attempts, failure)
            if pause_s is None:
                raise failure.as_error(attempts) from cause
            self._sleep(pause_s)

    def _attempt(self, texts: list[str]) -> Iterator[Vectors]:
        arguments: dict[str, Any] = {
            "model": self._model,
            "input": texts,
            "timeout": self._timeout_s,
            "num_retries": 0,
            "encoding_format": "float",
        }
        if self._settings.dimensions:
            arguments["dimensions"] = self._settings.dimensions
        if self._api_base is not None:
            arguments |= own_server_arguments(self._model, self._api_base)
        yield self._read(litellm.embedding(**arguments), len(texts))

    def _read(self, response: Any, count: int) -> Vectors:
        entries = sorted((response.data if response else None) or [], key=lambda entry: int(entry["index"]))
        try:
            vectors = np.array([entry["embedding"] for entry in entries], np.float32)
        except (TypeError, ValueError) as error:
            raise ModelUnavailableError(self._model, f"its answer holds no vectors of numbers ({error})") from error
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise ModelUnavailableError(
                self._model, f"asked for the vectors of {count} texts, it gave {len(entries)}, or unusable ones"
            )
        if self._dimensions not in (0, vectors.shape[1]):
            raise ModelRequestError(
                self._model,
                f"its vectors have {vectors.shape[1]} dimensions, not {self._dimensions}; set"
                " PERDURE_EMBEDDING__DIMENSIONS to what it gives, or to 0",
            )
        return vectors
