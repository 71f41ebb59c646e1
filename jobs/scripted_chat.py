"""A scripted model, for tests and demonstrations: it says what its script says, and is declared as such.

A script is plain data and has a name that holds all of it, `scripted/<json>`, so an agent can keep it as its
model, across processes and restarts.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..storage.errors import InvalidInputError, ModelRequestError, ModelUnavailableError
from ..storage.records import CallId, ToolCall
from .chat_model import ChatReply, ChatRequest
from .openai_form import estimated_usage
from .request_parts import input_place, result_text, spoken

PREFIX = "scripted/"
SHOWN_NAME = "scripted"
"""What errors call this model: its name holds the whole script."""

_PIECE = re.compile(r"\s*(?:\S+\s*){1,3}|\s+")
_PLACEHOLDER = re.compile(r"\{(input|result)\}")


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with a text; `{result}` stands for the newest tool result, `{input}` for the user's message."""

    text: str


@dataclass(frozen=True, slots=True)
class CallTools:
    """Ask for tools: pairs of a name and its arguments. Their call ids come from the step and their place in it."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    text: str = ""

    def __post_init__(self) -> None:
        if not _are_calls(self.calls):
            raise InvalidInputError(
                "CallTools.calls", f"{self.calls!r} are no calls", 'give pairs: CallTools((("name", {"argument": 1}),))'
            )


@dataclass(frozen=True, slots=True)
class Pause:
    """Take so long before the next step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FailWith:
    """Fail. With `times`, only so often, and then go on with the next step.

    The failures are counted by each process of the models, for the same conversation (its messages without the
    system prompt): a request that a killed process failed may fail once more in the next one.
    """

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

    def __post_init__(self) -> None:
        if not _are_steps(self.steps):
            raise InvalidInputError(
                "Rule.steps", f"{self.steps!r} are no steps", 'give a tuple of them: Rule(None, (Say("Hello"),))'
            )


@dataclass(frozen=True, slots=True)
class Script:
    """Rules, of which the first that fits the user's newest message is followed."""

    rules: tuple[Rule, ...]


def script_to_name(script: Script) -> str:
    """A script as the name of a model; equal scripts have equal names.

    Raises:
        InvalidInputError: It holds what JSON cannot, or what is no step.
    """
    try:
        rules = [{"when": rule.when, "steps": [_step_form(step) for step in rule.steps]} for rule in script.rules]
        name = PREFIX + json.dumps(rules, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            "model", f"the script cannot be written as JSON ({error})", "use plain values"
        ) from error
    script_from_name(name)  # a script of wrong types is refused where it is made
    return name


@lru_cache(maxsize=256)
def script_from_name(name: str) -> Script:
    """The script that a model's name holds.

    Raises:
        InvalidInputError: It holds none.
    """
    try:
        if not name.startswith(PREFIX):
            raise ValueError(f"it does not begin with {PREFIX}")
        rules = json.loads(name.removeprefix(PREFIX))
        return Script(
            tuple(
                Rule(_checked(rule["when"], str | None), tuple(_step_from(form) for form in _list(rule["steps"])))
                for rule in _list(rules)
            )
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInputError(
            "model", f"the name of a scripted model holds no script ({error})", "make it with script_to_name"
        ) from error


class ScriptedChat:
    """Follows the script in a request's model name. A `ChatModel`; threads may share one instance.

    It keeps no place: which step is due shows in the request, by the assistant messages after the user's newest
    message. So a turn that is continued after a crash goes on where it was, with the same call ids, while
    results that another turn left, which stand before that message, do not count.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._failures: dict[str, int] = {}
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        """The script's next answer."""
        try:
            script = script_from_name(request.model or "")
        except InvalidInputError as error:
            raise ModelRequestError(SHOWN_NAME, str(error)) from error
        place = input_place(request.messages)
        said = "" if place is None else spoken(request.messages[place]).text
        given = sum(message.role == "assistant" for message in request.messages[place or 0 :])
        rule = next((rule for rule in script.rules if _fits(rule, said)), None)
        if rule is None:
            return _reply(request, "The script has no rule for this message.")
        answers = 0
        for number, step in enumerate(rule.steps):
            if isinstance(step, Say | CallTools):
                if answers == given:
                    return self._follow(request, step, given, said)
                answers += 1
            elif answers == given:
                self._pause_or_fail(step, number, request)
        return _reply(request, "The script has no further step for this message.")

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """The script's next answer, a few words at a time."""
        reply = self.complete(request)
        yield from _PIECE.findall(reply.text)
        yield reply

    def _follow(self, request: ChatRequest, step: Say | CallTools, given: int, said: str) -> ChatReply:
        results = (result_text(message) for message in reversed(request.messages) if message.role == "tool")
        fillings = {"input": said, "result": next(results, "")}
        text = _PLACEHOLDER.sub(lambda found: fillings[found[1]], step.text)
        if isinstance(step, Say):
            return _reply(request, text)
        calls = tuple(
            ToolCall(
                call_id=CallId(f"call_{given}_{place}"),
                name=name,
                arguments=json.dumps(dict(arguments), ensure_ascii=False),
            )
            for place, (name, arguments) in enumerate(step.calls)
        )
        return _reply(request, text, calls)

    def _pause_or_fail(self, step: Pause | FailWith, number: int, request: ChatRequest) -> None:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return
        if step.times is not None:
            with self._lock:
                key = _fingerprint(request, number)
                failures = self._failures.get(key, 0)
                if failures >= step.times:
                    return
                self._failures[key] = failures + 1
        raise (ModelUnavailableError if step.retryable else ModelRequestError)(SHOWN_NAME, step.reason)


def _fingerprint(request: ChatRequest, number: int) -> str:
    seen = [(one.role, one.content, one.call_id, one.seq) for one in request.messages if one.role != "system"]
    return hashlib.sha256(repr((request.model, number, seen)).encode("utf-8", "replace")).hexdigest()


def _fits(rule: Rule, said: str) -> bool:
    return rule.when is None or rule.when.casefold() in said.casefold()


def _reply(request: ChatRequest, text: str, calls: tuple[ToolCall, ...] = ()) -> ChatReply:
    return ChatReply(text=text, tool_calls=calls, usage=estimated_usage(request, text, calls))


def _step_form(step: Step) -> dict[str, Any]:
    match step:
        case Say():
            return {"say": step.text}
        case CallTools():
            return {"call": [[name, dict(arguments)] for name, arguments in step.calls], "text": step.text}
        case Pause():
            return {"pause_s": step.seconds}
        case FailWith():
            return {"fail": step.reason, "retryable": step.retryable, "times": step.times}


def _step_from(form: Mapping[str, Any]) -> Step:
    match form:
        case {"pause_s": bool()} | {"times": bool()}:
            raise ValueError(f"no step: {form!r:.100}")
        case {"say": str(text)}:
            return Say(text)
        case {"call": list(calls), "text": str(text)}:
            return CallTools(tuple((_checked(name, str), _checked(given, dict)) for name, given in calls), text)
        case {"pause_s": int() | float() as seconds} if seconds >= 0:
            return Pause(seconds)
        case {"fail": str(reason), "retryable": bool(retryable), "times": None | int() as times}:
            return FailWith(reason, retryable, times)
        case _:
            raise ValueError(f"no step: {form!r:.100}")


def _checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} stands where it should not")
    return value


def _list(value: Any) -> list[Any]:
    return list(_checked(value, list))


def _are_calls(given: object) -> bool:
    return isinstance(given, tuple) and all(
        isinstance(call, tuple) and len(call) == 2 and isinstance(call[0], str) and isinstance(call[1], Mapping)
        for call in given
    )


def _are_steps(given: object) -> bool:
    return isinstance(given, tuple) and all(isinstance(step, Say | CallTools | Pause | FailWith) for step in given)
