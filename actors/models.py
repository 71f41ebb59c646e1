"""The processes of the `models` pool: the only ones that talk to models."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..jobs.chat_model import ChatReply, ChatRequest
from ..storage.settings import ModelSettings


class Models:
    """Answers chat requests, several at a time. It keeps nothing: any process of the pool may answer, and be killed.

    Keys of model providers are read here, from the environment of this process.
    """

    def __init__(self, settings: ModelSettings, replica: int) -> None:
        from ..jobs.chat_models import ChatModels  # a driver loads this class too, and asks no model itself

        self._chat = ChatModels(settings)
        self._replica = replica

    def __repr__(self) -> str:
        return f"Models({self._replica})"

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply; it may be asked again."""
        return self._chat.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole."""
        for piece in self._chat.stream(request):  # noqa: UP028 - Ray sends into it; a plain iterator refuses
            yield piece

    def pid(self) -> int:
        """This process."""
        return os.getpid()
