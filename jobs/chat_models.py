"""Which chat model answers: chosen by the name in the request."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from ..storage.settings import ModelSettings
from .chat_model import ChatModel, ChatReply, ChatRequest
from .embedded_chat import EmbeddedChat
from .model_failures import safe_cause, without_secrets
from .scripted_chat import PREFIX as SCRIPTED
from .scripted_chat import ScriptedChat

EMBEDDED = "embedded"
PYTHON = "python/"


class ChatModels:
    """A `ChatModel` that hands each request to the one it names. Threads may share one instance.

    None or `embedded`: the embedded model. `scripted/…`: a script. `python/package.module:attribute`: a user's
    own `ChatModel`, or a class or function that makes one without arguments; it is made once. Everything else:
    litellm, which is loaded when it is first asked for.
    """

    def __init__(self, settings: ModelSettings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._embedded = EmbeddedChat()
        self._scripted = ScriptedChat(sleep)
        self._loaded: dict[str, ChatModel] = {}
        self._loading = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply; see `ChatModel`."""
        model = self._model(request.model)
        try:
            reply = model.complete(request)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  a user's model may raise anything
            raise _unexpected(request, error) from safe_cause(error)
        return _checked(request, reply)

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole; see `ChatModel`."""
        model = self._model(request.model)
        text = ""
        try:
            for piece in model.stream(request):
                if not isinstance(piece, str):
                    yield _checked(request, piece, text)
                    return
                text += piece
                yield piece
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  a user's model may raise anything
            raise _unexpected(request, error) from safe_cause(error)
        raise _wrong(request, "its stream ended without a ChatReply")

    def _model(self, name: str | None) -> ChatModel:
        if name is None or name == EMBEDDED:
            return self._embedded
        if name.startswith(SCRIPTED):
            return self._scripted
        key = name if name.startswith(PYTHON) else "litellm"
        if (loaded := self._loaded.get(key)) is not None:
            return loaded
        with self._loading:  # one at a time: litellm takes seconds
            if key not in self._loaded:
                self._loaded[key] = _imported(name) if name.startswith(PYTHON) else self._litellm()
            return self._loaded[key]

    def _litellm(self) -> ChatModel:
        from .litellm_chat import LitellmChat

        return LitellmChat(self._settings, sleep=self._sleep)


def _imported(name: str) -> ChatModel:
    module_name, _, attribute = name.removeprefix(PYTHON).partition(":")
    if not (module_name and attribute):
        raise ModelRequestError(name, "it names no model; write python/package.module:attribute")
    try:
        model: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            model = getattr(model, part)
        if isinstance(model, type) or not _is_model(model):
            model = model()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a user's module may raise anything, even an exit
        reason = without_secrets(f"{type(error).__name__}: {error}")
        raise ModelRequestError(name, f"it cannot be loaded where models run: {reason}") from safe_cause(error)
    if not _is_model(model):
        raise ModelRequestError(name, f"a {type(model).__name__} is no ChatModel: it lacks complete or stream")
    return model  # type: ignore[no-any-return]  # looked at above


def _is_model(found: Any) -> bool:
    return callable(getattr(found, "complete", None)) and callable(getattr(found, "stream", None))


def _checked(request: ChatRequest, reply: object, streamed: str | None = None) -> ChatReply:
    """What a model answered, if it keeps to `ChatModel`: a user's own may not."""
    if not isinstance(reply, ChatReply):
        raise _wrong(request, f"it answered with a {type(reply).__name__}, not a ChatReply")
    if streamed is not None and reply.text != streamed:
        raise _wrong(request, "the text of its ChatReply is not the streamed pieces joined")
    ids = {call.call_id for call in reply.tool_calls}
    if len(ids) < len(reply.tool_calls) or "" in ids:
        raise _wrong(request, "the ids of its tool calls are not unique")
    return reply


def _wrong(request: ChatRequest, problem: str) -> ModelRequestError:
    return ModelRequestError(request.shown_model, problem)


def _unexpected(request: ChatRequest, error: Exception) -> ModelUnavailableError:
    return ModelUnavailableError(request.shown_model, without_secrets(f"{type(error).__name__}: {error}"))
