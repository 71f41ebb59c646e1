"""Requests and replies in OpenAI's chat form, which litellm speaks to every provider."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..storage.records import CallId, ToolCall, Usage
from ..storage.text import clean_text
from ..storage.tokens import estimate_tokens
from .chat_model import ChatMessage, ChatReply, ChatRequest, ToolSpec

_VALID_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HIGH_SURROGATE = re.compile(r"[\ud800-\udbff]\Z")


def openai_messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """The messages as the API takes them.

    A speaker becomes `name` where the API allows it: letters, digits, `_` and `-` only. Arguments that are no
    JSON object, such as those of an answer cut off by its length limit, are wrapped in one: several
    providers parse them and would refuse the conversation for ever.
    """
    return [_openai_message(message) for message in messages]


def _openai_message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    form: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.speaker is not None and message.role == "user" and _VALID_NAME.fullmatch(message.speaker):
        form["name"] = message.speaker
    if message.tool_calls:
        form["content"] = message.content or None
        form["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": _object_text(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return form


def _object_text(arguments: str) -> str:
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    return arguments if is_object else json.dumps({"malformed_arguments": arguments})


def openai_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as the API takes them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


@dataclass(slots=True)
class _CallInParts:
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class AnswerInParts:
    """Puts an answer together from its parts: one message, or the deltas of a stream."""

    request: ChatRequest
    finish_reason: str | None = None
    _texts: list[str] = field(default_factory=list)
    _held: str = ""
    _calls: dict[int, _CallInParts] = field(default_factory=dict)
    _prompt_tokens: int = 0
    _completion_tokens: int = 0

    def add_text(self, text: str | None) -> str:
        """Take a piece of the text; what may be shown of it now.

        Half an emoji at the end of a piece waits for its other half; a half that stays alone becomes U+FFFD, as
        in everything that is stored.
        """
        text = self._held + (text or "")
        half = _HIGH_SURROGATE.search(text)
        self._held = half.group() if half else ""
        shown = clean_text(text[: half.start()] if half else text)
        if shown:
            self._texts.append(shown)
        return shown

    def end_text(self) -> str:
        """Take the end of the text; what of it was still held back."""
        rest = clean_text(self._held)
        self._held = ""
        if rest:
            self._texts.append(rest)
        return rest

    def add_calls(self, calls: Iterable[Any] | None) -> None:
        """Take whole calls."""
        for call in calls or ():
            self._add_to(len(self._calls), call)

    def add_call_deltas(self, deltas: Iterable[Any] | None) -> None:
        """Take pieces of calls; one without an index begins a call if it has an id, else continues the newest."""
        for delta in deltas or ():
            index = getattr(delta, "index", None)
            if index is None:
                newest = max(self._calls, default=-1)
                index = newest + 1 if getattr(delta, "id", None) or newest < 0 else newest
            self._add_to(index, delta)

    def _add_to(self, index: int, call: Any) -> None:
        parts = self._calls.setdefault(index, _CallInParts())
        parts.call_id = parts.call_id or getattr(call, "id", None) or ""
        parts.name += getattr(call.function, "name", None) or ""
        arguments = getattr(call.function, "arguments", None) or ""
        parts.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def add_usage(self, usage: Any) -> None:
        """Take what the provider says that the answer cost; nothing and zeros are no word about it."""
        self._prompt_tokens = getattr(usage, "prompt_tokens", None) or self._prompt_tokens
        self._completion_tokens = getattr(usage, "completion_tokens", None) or self._completion_tokens

    def reply(self) -> ChatReply:
        """The whole answer; one without text and without calls has neither."""
        text = "".join(self._texts)
        taken = {call.call_id for message in self.request.messages for call in message.tool_calls}
        calls = tuple(
            ToolCall(
                call_id=_fresh_unless_unique(parts.call_id, taken),
                name=clean_text(parts.name),
                arguments=clean_text(parts.arguments),
            )
            for _, parts in sorted(self._calls.items())
        )
        return ChatReply(text=text, tool_calls=calls, usage=self._usage(text, calls))

    def _usage(self, text: str, calls: Sequence[ToolCall]) -> Usage:
        if self._prompt_tokens or self._completion_tokens:
            return Usage(prompt_tokens=self._prompt_tokens, completion_tokens=self._completion_tokens, model_calls=1)
        return estimated_usage(self.request, text, calls)


def estimated_usage(request: ChatRequest, text: str, calls: Sequence[ToolCall] = ()) -> Usage:
    """What a model call cost, by the token estimate: for providers that do not say, and models without any."""
    prompt = sum(estimate_tokens(message.content) for message in request.messages)
    prompt += sum(
        estimate_tokens(call.arguments)
        for message in request.messages
        if message.tool_calls
        for call in message.tool_calls
    )
    prompt += sum(
        estimate_tokens(tool.description) + estimate_tokens(_json_text(tool.parameters)) for tool in request.tools
    )
    completion = estimate_tokens(text) + sum(estimate_tokens(call.arguments) for call in calls)
    return Usage(prompt_tokens=prompt, completion_tokens=completion, model_calls=1, is_estimated=True)


def _json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, default=str)


def _fresh_unless_unique(call_id: str, taken: set[CallId]) -> CallId:
    """The id, or a new one where it is missing or taken, in this reply or by a call that the request shows."""
    unique = CallId(call_id)
    while not unique or unique in taken:
        unique = CallId(f"call_{uuid.uuid4().hex}")
    taken.add(unique)
    return unique
