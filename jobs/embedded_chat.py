"""The embedded chat model: finds what the user said that matters to the question, and quotes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..storage.records import Usage
from ..storage.tokens import estimate_tokens
from .chat_model import ChatMessage, ChatReply, ChatRequest

_STOP = frozenset(
    "a an and are as at be but by can could did do does for from had has have how i in is it its me my of on or our"
    " so that the their them they this to was we were what when where which who why will with would you your".split()
)


class EmbeddedChat:
    """Answers by quoting the user's own words from the request; it never calls tools, and never guesses."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """The quotation that matters most, or that there is none."""
        said = [message for message in request.messages if message.role == "user"]
        text = self._answer(said)
        prompt = sum(estimate_tokens(message.content) for message in request.messages)
        usage = Usage(
            prompt_tokens=prompt, completion_tokens=estimate_tokens(text), model_calls=1, is_estimated=True
        )
        return ChatReply(text=text, usage=usage)

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The same, word by word."""
        reply = self.complete(request)
        yield from re.findall(r"\S+\s*", reply.text)
        yield reply

    def _answer(self, said: list[ChatMessage]) -> str:
        question = said[-1].content if said else ""
        if "?" not in question:
            return "Noted."
        wanted = _words(question)
        scored = [
            (len(wanted & _words(message.content)), place, message)
            for place, message in enumerate(said[:-1])
            if "?" not in message.content
        ]
        best = max((entry for entry in scored if entry[0]), default=None, key=lambda entry: entry[:2])
        if best is None:
            return "You have not told me anything about that in this conversation."
        return f'In message {best[2].seq} you said: "{best[2].content}"'


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if word not in _STOP}
