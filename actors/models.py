"""The processes of the `models` pool: the only ones that talk to models."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..jobs.chat_model import ChatReply, ChatRequest
from ..storage.settings import Settings

if TYPE_CHECKING:
    from ..jobs.batching_embedder import BatchingEmbedder
    from ..jobs.embedder import EmbeddedText


class Models:
    """Answers chat requests and embeds texts, several at a time.

    It keeps nothing: any process of the pool may answer, and be killed.

    Keys of model providers are read here, from the environment of this process.
    """

    def __init__(self, settings: Settings, replica: int) -> None:
        from ..jobs.chat_models import ChatModels  # a driver loads this class too, and asks no model itself

        self._settings = settings
        self._chat = ChatModels(settings.models)
        self._replica = replica
        self._embedder: BatchingEmbedder | None = None
        self._loading = threading.Lock()

    def __repr__(self) -> str:
        return f"Models({self._replica})"

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply; it may be asked again."""
        return self._chat.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole."""
        for piece in self._chat.stream(request):  # noqa: UP028 - Ray sends into it; a plain iterator refuses
            yield piece

    def embed(self, texts: Sequence[str], is_query: bool) -> list[EmbeddedText]:
        """The vectors of texts; it may be asked again. See `BatchingEmbedder.embed`."""
        return self._loaded_embedder().embed(texts, is_query=is_query)

    def embedding_space(self) -> tuple[str, int]:
        """Name and dimensions of the vectors."""
        return self._loaded_embedder().space

    def _loaded_embedder(self) -> BatchingEmbedder:
        with self._loading:
            if self._embedder is None:
                from ..jobs.batching_embedder import BatchingEmbedder
                from ..jobs.embedders import make_embedder

                embedder = make_embedder(self._settings.embedding, self._settings.models)
                self._embedder = BatchingEmbedder(embedder)
            return self._embedder

    def pid(self) -> int:
        """This process."""
        return os.getpid()
