"""Chat models of any provider, through litellm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from ..storage.settings import ModelSettings
from .chat_model import ChatReply, ChatRequest
from .litellm_setup import litellm, missing_keys, own_server_arguments
from .model_failures import Failure, safe_cause
from .openai_form import AnswerInParts, openai_messages, openai_tools
from .request_thread import Backoff, pieces_within


class LitellmChat:
    """Asks the model that a request names. Threads may share one instance.

    Keys come from the environment of this process, under the names that litellm reads (`OPENAI_API_KEY`,
    `ANTHROPIC_API_KEY` …), and appear in no error. A failure that may pass (too many requests, a server
    error, no connection, a timeout) is tried again with exponential backoff and full jitter, after the pause
    that the provider asks for; once a piece of a stream was handed on, it is raised instead, since a second
    answer would not continue the first.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._backoff = Backoff(max_retries=settings.max_retries, random=random)
        self._monotonic = monotonic

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply at once; `timeout_s` holds for each attempt's whole answer."""
        for piece in self._answer(request, is_streamed=False):
            if isinstance(piece, ChatReply):
                return piece
        raise AssertionError("an answer without an end")

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply's text in pieces, then the whole reply; `timeout_s` holds from request to end."""
        return self._answer(request, is_streamed=True)

    def _answer(self, request: ChatRequest, is_streamed: bool) -> Iterator[str | ChatReply]:
        if not request.model:
            raise ModelRequestError("", "no model is named; name it with its provider, such as openai/gpt-4o-mini")
        attempts = 0
        while True:
            attempts += 1
            has_begun = False
            try:
                for piece in pieces_within(
                    request.timeout_s,
                    lambda: self._pieces(request, is_streamed),
                    lambda piece: isinstance(piece, ChatReply),
                    self._monotonic,
                ):
                    has_begun = True
                    yield piece
                return
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001  litellm's, openai's, httpx's and plain Python errors
                lacking = missing_keys(request.model, self._settings.api_base)
                failure = Failure.of(error, request.model, request.timeout_s, lacking)
                cause = safe_cause(error)
            pause_s = self._backoff.pause_before(attempts, failure)
            if has_begun or pause_s is None:  # what was handed on cannot be taken back
                raise failure.as_error(attempts) from cause
            self._sleep(pause_s)

    def _pieces(self, request: ChatRequest, is_streamed: bool) -> Iterator[str | ChatReply]:
        parts = AnswerInParts(request)
        response = self._ask(request, is_streamed)
        if is_streamed:
            try:
                for chunk in response:
                    if shown := _take_chunk(chunk, parts):
                        yield shown
            finally:
                response.close()
            if shown := parts.end_text():
                yield shown
        else:
            _take_response(response, parts)
        reply = parts.reply()
        if not reply.text.strip() and not reply.tool_calls:
            ended = f" (finish reason: {parts.finish_reason})" if parts.finish_reason else ""
            raise ModelUnavailableError(request.model or "", f"empty answer{ended}")
        yield reply

    def _ask(self, request: ChatRequest, is_streamed: bool) -> Any:
        arguments: dict[str, Any] = {
            "model": request.model,
            "messages": openai_messages(request.messages),
            "timeout": request.timeout_s,
            "num_retries": 0,
            "stream": is_streamed,
        }
        if request.tools:
            arguments["tools"] = openai_tools(request.tools)
        if self._settings.api_base is not None:
            arguments |= own_server_arguments(request.model or "", self._settings.api_base)
        if is_streamed:
            arguments["stream_options"] = {"include_usage": True}
        try:
            response = litellm.completion(**arguments)
        except litellm.exceptions.BadRequestError as error:
            if not is_streamed or "stream_options" not in str(error):
                raise
            del arguments["stream_options"]
            response = litellm.completion(**arguments)
        if response is None:  # what litellm makes of a second 422 in a row
            raise ModelRequestError(request.model or "", "the request was refused, HTTP 422")
        return response


def _take_chunk(chunk: Any, parts: AnswerInParts) -> str:
    parts.add_usage(getattr(chunk, "usage", None))
    if not chunk.choices:
        return ""
    choice = chunk.choices[0]
    parts.finish_reason = choice.finish_reason or parts.finish_reason
    parts.add_call_deltas(choice.delta.tool_calls)
    return parts.add_text(choice.delta.content)


def _take_response(response: Any, parts: AnswerInParts) -> None:
    parts.add_usage(getattr(response, "usage", None))
    if not response.choices:
        return
    choice = response.choices[0]
    parts.finish_reason = choice.finish_reason
    parts.add_calls(choice.message.tool_calls)
    parts.add_text(choice.message.content)
    parts.end_text()
