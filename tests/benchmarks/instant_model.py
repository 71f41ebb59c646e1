"""A model that costs nothing itself: what is left of a turn is ours."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.jobs.chat_model import ChatReply, ChatRequest
from perdure.storage.records import Usage

NAME = "python/tests.benchmarks.instant_model:InstantModel"


class InstantModel:
    """Says the same at once, whatever it is asked. A `ChatModel`."""

    def __init__(self) -> None:
        self._reply = ChatReply(text="a" * 200, usage=Usage(prompt_tokens=1, completion_tokens=1, model_calls=1))

    def complete(self, request: ChatRequest) -> ChatReply:
        """The reply."""
        return self._reply

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in one piece."""
        yield self._reply.text
        yield self.complete(request)
