"""Which chat model answers: chosen by the name in the request."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from ..storage.settings import ModelSettings
from .chat_model import ChatModel, ChatReply, ChatRequest
from .embedded_chat import EmbeddedChat
from .scripted_chat import PREFIX as SCRIPTED
from .scripted_chat import ScriptedChat

EMBEDDED = "embedded"
PYTHON = "python/"


class ChatModels:
    """A `ChatModel` that hands each request to the one it names.

    None or `embedded`: the embedded model. `scripted/…`: a script. `python/package.module:attribute`: a user's
    own `ChatModel`, or a function without arguments that makes one. Everything else: litellm, which is loaded
    when it is first asked for.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._models: dict[str, ChatModel] = {}
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply; see `ChatModel`."""
        model = self._model(request)
        try:
            return model.complete(request)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything
            raise _unexpected(request, error) from error

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The reply in pieces, then whole; see `ChatModel`."""
        model = self._model(request)
        try:
            yield from model.stream(request)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything
            raise _unexpected(request, error) from error

    def _model(self, request: ChatRequest) -> ChatModel:
        name = request.model or EMBEDDED
        if name == EMBEDDED:
            return self._made(EMBEDDED, EmbeddedChat)
        if name.startswith(SCRIPTED):
            return self._made(SCRIPTED, ScriptedChat)
        if name.startswith(PYTHON):
            return self._made(name, lambda: _imported(name))
        return self._made("litellm", self._litellm)

    def _made(self, key: str, make: Callable[[], ChatModel]) -> ChatModel:
        with self._lock:
            if key not in self._models:
                self._models[key] = make()
            return self._models[key]

    def _litellm(self) -> ChatModel:
        from .litellm_chat import LitellmChat

        return LitellmChat(self._settings)


def _imported(name: str) -> ChatModel:
    module_name, _, attribute = name.removeprefix(PYTHON).partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
        model = found if hasattr(found, "complete") and not isinstance(found, type) else found()
    except Exception as error:  # noqa: BLE001 - importing a user's module may raise anything
        raise ModelRequestError(name, f"it cannot be loaded: {type(error).__name__}: {error}") from error
    if not (hasattr(model, "complete") and hasattr(model, "stream")):
        raise ModelRequestError(name, f"a {type(model).__name__} is no ChatModel: it lacks complete or stream")
    return model  # type: ignore[no-any-return]  # its form was looked at


def _unexpected(request: ChatRequest, error: Exception) -> ModelUnavailableError:
    return ModelUnavailableError(request.model or EMBEDDED, f"{type(error).__name__}: {error}")
