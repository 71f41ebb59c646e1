"""litellm, set up for what it is to do: one request and its answer. Only this module imports it.

It takes the bundled price list and headers instead of ones fetched from the network, looks for no `.env` file
in the folders above, and has no retries, no callbacks and no printing of its own.
"""

from __future__ import annotations

import logging
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")

import litellm  # its import reads the variables above

__all__ = ["litellm", "missing_keys", "own_server_arguments"]

litellm.suppress_debug_info = True
litellm.drop_params = True
litellm.num_retries = 0
litellm.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]  # an embedding's `max_retries=0` counts as none given
litellm.turn_off_message_logging = True
litellm.redact_messages_in_exceptions = True
litellm.disable_streaming_logging = True
litellm.disable_token_counter = True  # usage that a provider left out is ours to estimate, and 0 here
litellm.callbacks = []
litellm.input_callback = []
litellm.success_callback = []
litellm.failure_callback = []
logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # every failure reaches the caller as an error

_OWN_SERVERS = frozenset(
    {"hosted_vllm", "litellm_proxy", "llamafile", "lm_studio", "ollama", "ollama_chat", "xinference"}
)


def missing_keys(model: str, api_base: str | None) -> tuple[str, ...]:
    """The environment variables that hold keys for this model and that are not set."""
    if api_base is not None:
        return () if os.environ.get("OPENAI_API_KEY") else ("OPENAI_API_KEY",)
    return tuple(litellm.validate_environment(model=model)["missing_keys"])


def own_server_arguments(model: str, api_base: str) -> dict[str, Any]:
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
