"""A scripted model, for tests and demonstrations: it says what its script says, and is declared as such."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..storage.errors import InvalidInputError, ModelRequestError, ModelUnavailableError
from ..storage.records import CallId, ToolCall, Usage
from ..storage.tokens import estimate_tokens
from .chat_model import ChatMessage, ChatReply, ChatRequest

PREFIX = "scripted/"


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with a text; `{result}` stands for the newest tool result, `{input}` for the user's message."""

    text: str


@dataclass(frozen=True, slots=True)
class CallTools:
    """Ask for tools: pairs of a name and its arguments."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Take so long before the next step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FailWith:
    """Fail; with `times`, only so often for the same request and process, and then go on with the next step."""

    reason: str
    retryable: bool = True
    times: int | None = None


Step = Say | CallTools | Pause | FailWith


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do about messages that contain a text."""

    when: str | None
    """Part of the user's newest message, whatever its case; None: any message."""
    steps: tuple[Step, ...]
    """One for each answer of a turn; pauses and failures come before the answer that follows them."""


@dataclass(frozen=True, slots=True)
class Script:
    """Rules, of which the first that fits the user's newest message is followed."""

    rules: tuple[Rule, ...]


def script_to_name(script: Script) -> str:
    """A script as the name of a model, so that it can be stored with an agent."""
    rules = [{"when": rule.when, "steps": [_step_form(step) for step in rule.steps]} for rule in script.rules]
    try:
        return PREFIX + json.dumps(rules, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("model", f"the script holds what JSON cannot ({error})", "use plain values") from error


def script_from_name(name: str) -> Script:
    """The script that a model's name holds.

    Raises:
        InvalidInputError: It holds none.
    """
    try:
        rules = json.loads(name.removeprefix(PREFIX))
        return Script(
            tuple(Rule(rule["when"], tuple(_step_from(form) for form in rule["steps"])) for rule in rules)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            "model", f"it begins with {PREFIX!r} and holds no script ({error})", "make it with script_to_name"
        ) from error


class ScriptedChat:
    """Follows the script in a request's model name. A `ChatModel`.

    It keeps no place: which step is due shows in the request, by the assistant messages after the user's newest
    message. So a turn that is continued after a crash goes on where it was, with the same call ids.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._failures: dict[str, int] = {}
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        """The script's next answer."""
        script = script_from_name(request.model or "")
        newest, given = _progress(request.messages)
        rule = next((rule for rule in script.rules if _fits(rule, newest)), None)
        if rule is None:
            return _answer(request, "The script has no rule for this message.")
        answers = 0
        for place, step in enumerate(rule.steps):
            if isinstance(step, Say | CallTools):
                if answers == given:
                    return self._follow(request, step, given, newest)
                answers += 1
            elif answers == given:
                self._delay_or_fail(step, f"{request.model}\0{newest}\0{place}")
        return _answer(request, "The script has no further step for this message.")

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The script's next answer, a few words at a time."""
        reply = self.complete(request)
        for start in range(0, len(reply.text), 12):
            yield reply.text[start : start + 12]
        yield reply

    def _follow(self, request: ChatRequest, step: Say | CallTools, given: int, newest: str) -> ChatReply:
        results = [message.content for message in request.messages if message.role == "tool"]
        text = step.text.replace("{result}", results[-1] if results else "").replace("{input}", newest)
        if isinstance(step, Say):
            return _answer(request, text)
        calls = tuple(
            ToolCall(
                call_id=CallId(f"call_{given}_{place}"),
                name=name,
                arguments=json.dumps(arguments, ensure_ascii=False),
            )
            for place, (name, arguments) in enumerate(step.calls)
        )
        return _answer(request, text, calls)

    def _delay_or_fail(self, step: Pause | FailWith, key: str) -> None:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return
        with self._lock:
            failures = self._failures.get(key, 0)
            if step.times is not None and failures >= step.times:
                return
            self._failures[key] = failures + 1
        raise (ModelUnavailableError if step.retryable else ModelRequestError)("scripted", step.reason)


def _progress(messages: tuple[ChatMessage, ...]) -> tuple[str, int]:
    """The user's newest message, and how many answers of the turn stand after it."""
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    if not places:
        return "", sum(message.role == "assistant" for message in messages)
    after = messages[places[-1] :]
    return messages[places[-1]].content, sum(message.role == "assistant" for message in after)


def _fits(rule: Rule, newest: str) -> bool:
    return rule.when is None or rule.when.casefold() in newest.casefold()


def _answer(request: ChatRequest, text: str, calls: tuple[ToolCall, ...] = ()) -> ChatReply:
    usage = Usage(
        prompt_tokens=sum(estimate_tokens(message.content) for message in request.messages),
        completion_tokens=estimate_tokens(text) + sum(estimate_tokens(call.arguments) for call in calls),
        model_calls=1,
        is_estimated=True,
    )
    return ChatReply(text=text, tool_calls=calls, usage=usage)


def _step_form(step: Step) -> dict[str, Any]:
    if isinstance(step, Say):
        return {"say": step.text}
    if isinstance(step, CallTools):
        return {"call": [[name, dict(arguments)] for name, arguments in step.calls], "text": step.text}
    if isinstance(step, Pause):
        return {"pause_s": step.seconds}
    return {"fail": step.reason, "retryable": step.retryable, "times": step.times}


def _step_from(form: Mapping[str, Any]) -> Step:
    if "say" in form:
        return Say(form["say"])
    if "call" in form:
        return CallTools(tuple((name, arguments) for name, arguments in form["call"]), form["text"])
    if "pause_s" in form:
        return Pause(form["pause_s"])
    return FailWith(form["fail"], form["retryable"], form["times"])
