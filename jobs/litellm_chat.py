"""Chat models of any provider, through litellm. Only this module imports litellm.

litellm is set up here for what it is to do, one request and its answer: the bundled price list and headers
instead of ones fetched from the network, no `.env` file found by walking up the folders, no retries, no
callbacks and no printing of its own.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from ..storage.settings import ModelSettings
from .chat_model import ChatReply, ChatRequest
from .model_failures import Failure, safe_cause
from .openai_form import AnswerInParts, openai_messages, openai_tools

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")

import litellm  # its import reads the variables above
from litellm.exceptions import BadRequestError

litellm.suppress_debug_info = True
litellm.drop_params = True
litellm.num_retries = 0
litellm.turn_off_message_logging = True
litellm.redact_messages_in_exceptions = True
litellm.disable_streaming_logging = True
litellm.disable_token_counter = True  # usage that a provider left out is ours to estimate, and 0 here
litellm.callbacks = []
litellm.input_callback = []
litellm.success_callback = []
litellm.failure_callback = []
logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # every failure reaches the caller as an error

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 8.0
EXIT_WAIT_S = 5.0
LONGEST_RETRY_AFTER_S = 60.0
"""A provider that asks for a longer pause is not waited for."""

_OWN_SERVERS = frozenset(
    {"hosted_vllm", "litellm_proxy", "llamafile", "lm_studio", "ollama", "ollama_chat", "xinference"}
)


class _RequestThread(threading.Thread):
    """Asks a provider, and may be left behind."""


def _let_requests_end() -> None:
    """Wait a moment for the requests under way when the interpreter ends.

    One that is importing a module just then (litellm does, late) would take the import lock along, and the
    interpreter would wait for that lock for ever. One that is waiting for its server does no harm.
    """
    ends_at = time.monotonic() + EXIT_WAIT_S
    for thread in threading.enumerate():
        if isinstance(thread, _RequestThread):
            thread.join(max(0.0, ends_at - time.monotonic()))


atexit.register(_let_requests_end)


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
        self._random = random
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
                for piece in self._attempt(request, is_streamed):
                    has_begun = True
                    yield piece
                return
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001  litellm's, openai's, httpx's and plain Python errors
                failure = Failure.of(error, request.model, request.timeout_s, self._missing_keys(request.model))
                cause = safe_cause(error)
            pause_s = self._pause_before(attempts, failure)
            if has_begun or pause_s is None:  # what was handed on cannot be taken back
                raise failure.as_error(attempts) from cause
            self._sleep(pause_s)

    def _missing_keys(self, model: str) -> tuple[str, ...]:
        """The environment variables that hold keys for this model and that are not set."""
        if self._settings.api_base is not None:
            return () if os.environ.get("OPENAI_API_KEY") else ("OPENAI_API_KEY",)
        return tuple(litellm.validate_environment(model=model)["missing_keys"])

    def _pause_before(self, attempts: int, failure: Failure) -> float | None:
        """How long to wait before the next attempt; None: there is none."""
        if not failure.is_worth_retrying or attempts > self._settings.max_retries:
            return None
        if failure.retry_after_s is not None and failure.retry_after_s > LONGEST_RETRY_AFTER_S:
            return None
        backoff_s = self._random() * min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempts - 1))
        return (failure.retry_after_s or 0.0) + backoff_s

    def _attempt(self, request: ChatRequest, is_streamed: bool) -> Iterator[str | ChatReply]:
        """One request and its answer, cut off at `timeout_s` however it arrives.

        litellm's timeout counts from byte to byte, so a server that sends one now and then is never too late
        for it. The request therefore runs on a thread of its own; one that is given up ends at its next piece
        or at litellm's timeout.
        """
        pieces: queue.SimpleQueue[str | ChatReply | Exception] = queue.SimpleQueue()
        is_given_up = threading.Event()

        def ask() -> None:
            try:
                for piece in self._pieces(request, is_streamed):
                    if is_given_up.is_set():
                        return
                    pieces.put(piece)
            except Exception as error:  # noqa: BLE001  raised again by the thread that waits
                pieces.put(error)

        thread = _RequestThread(target=ask, name="chat-request", daemon=True)
        thread.start()
        ends_at = self._monotonic() + request.timeout_s
        try:
            while True:
                try:
                    piece = pieces.get(timeout=max(0.0, ends_at - self._monotonic()))
                except queue.Empty:
                    raise TimeoutError from None
                if not isinstance(piece, str):
                    thread.join()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if isinstance(piece, ChatReply):
                    return
        finally:
            is_given_up.set()

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
            arguments |= _own_server_arguments(request.model or "", self._settings.api_base)
        if is_streamed:
            arguments["stream_options"] = {"include_usage": True}
        try:
            response = litellm.completion(**arguments)
        except BadRequestError as error:
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


def _own_server_arguments(model: str, api_base: str) -> dict[str, Any]:
    """How to reach an OpenAI-compatible server: under any name, it may know the model, and may need no key.

    What stands before the first slash is part of the model's name there, `qwen/…` or `anthropic/…`, unless it
    tells litellm that the server is one's own.
    """
    arguments: dict[str, Any] = {"api_base": api_base}
    prefix, slash, _ = model.partition("/")
    if slash and prefix in _OWN_SERVERS:
        return arguments
    arguments |= {"custom_llm_provider": "openai", "model": model.removeprefix("openai/")}
    if not os.environ.get("OPENAI_API_KEY"):
        arguments["api_key"] = "none"  # the client insists on one
    return arguments
