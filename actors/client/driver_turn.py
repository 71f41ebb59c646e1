"""A turn whose model loop is the driver's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

from ...jobs.driver_turn import DriverTurnView, RanCall
from ...jobs.openai_form import openai_messages
from ...storage.errors import InvalidInputError
from ...storage.records import CallId, CallStatus, Reply, ToolCall, TurnId, Usage
from .pending import ordered_call

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A tool call that the driver has run, with what came out."""

    name: str
    result: object
    """Text, or anything that JSON can hold."""
    arguments: str | Mapping[str, Any] = "{}"
    """As the model gave them: JSON text, or the object."""
    call_id: str | None = None
    """The model's id of the call, unique in the turn; None makes one."""
    status: CallStatus = "succeeded"
    sessions_opened: tuple[str, ...] = ()
    """Ids of browser sessions that the call left open, and below those it closed."""
    sessions_closed: tuple[str, ...] = ()


class Chat(Protocol):
    """The conversation that a turn belongs to."""

    def call(self, method: str, *arguments: object, timeout_s: float | None, turn_id: str | None = None) -> Any:
        """Call it and wait."""
        ...

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]: ...


class DriverTurn:
    """An open turn. Each step is stored when its call returns, and may be repeated.

    While it is open and was touched within 45 s (`turn.resume_after_s`), other turns of the conversation are
    refused with `TurnInProgressError`; later, the next turn takes its results over.
    """

    def __init__(self, chat: Chat, view: DriverTurnView) -> None:
        self._chat = chat
        self._view = view
        self._is_stale = False

    @property
    def turn_id(self) -> str:
        """The id under which the turn can be begun again after a crash of the driver."""
        return self._view.turn_id

    @property
    def reply(self) -> Reply | None:
        """The stored reply, once the turn is finished."""
        return self._view.reply

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the model should see now, in OpenAI's chat form; the turn's own rounds included."""
        if self._is_stale:
            self._refresh()
        return openai_messages(self._view.messages)

    @ordered_call
    def record_tool_round(
        self,
        results: Sequence[ToolResult | Mapping[str, Any]],
        *,
        text: str = "",
        usage: Usage | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Store a round: the calls that the model asked for, with their results, in one commit.

        Args:
            results: In the order of the calls. The same round again, under the same call ids, stores nothing.
            text: What the model said beside its calls.

        Raises:
            TurnAbandonedError, TurnNotOpenError: The turn has ended.
        """
        ran = [_ran_call(entry, f"results[{place}]") for place, entry in enumerate(results)]
        self._chat.call("record_tool_round", self._turn_id, text, ran, usage or Usage(), timeout_s=timeout_s)
        self._is_stale = True

    @ordered_call
    def finish(self, text: str, *, usage: Usage | None = None, timeout_s: float | None = None) -> Reply:
        """Store the reply and end the turn; the same text again gives the stored reply.

        Raises:
            TurnAbandonedError, TurnNotOpenError: The turn has ended otherwise.
        """
        if not isinstance(text, str):
            raise InvalidInputError("text", f"a {type(text).__name__} was given", "give the reply's text")
        reply = self._chat.call("finish_turn", self._turn_id, text, usage or Usage(), timeout_s=timeout_s)
        self._view = DriverTurnView(turn_id=self._turn_id, messages=(), reply=reply)
        self._is_stale = False
        return cast(Reply, reply)

    @ordered_call
    def abandon(self, *, timeout_s: float | None = None) -> None:
        """Give the turn up: its message and tool rounds stay in the history, a repeat of its id is refused."""
        self._chat.call("abandon_turn", self._turn_id, timeout_s=timeout_s)
        self._view = DriverTurnView(turn_id=self._turn_id, messages=())
        self._is_stale = False

    @ordered_call
    def _refresh(self) -> None:
        self._view = self._chat.call("view_turn", self._turn_id, timeout_s=None)
        self._is_stale = False

    @property
    def _turn_id(self) -> TurnId:
        return self._view.turn_id

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:
        return self._chat._submit(body, ordered=ordered, here=here)


def _ran_call(entry: ToolResult | Mapping[str, Any], field: str) -> RanCall:
    if isinstance(entry, Mapping):
        try:
            entry = ToolResult(**entry)
        except TypeError as error:
            raise InvalidInputError(field, str(error), "give name, arguments, result and call_id") from error
    if not isinstance(entry, ToolResult):
        raise InvalidInputError(field, f"a {type(entry).__name__} was given", "give ToolResult records or mappings")
    arguments = entry.arguments if isinstance(entry.arguments, str) else json.dumps(entry.arguments, ensure_ascii=False)
    content = (
        entry.result if isinstance(entry.result, str) else json.dumps(entry.result, ensure_ascii=False, default=str)
    )
    return RanCall(
        call=ToolCall(call_id=CallId(entry.call_id or f"call-{uuid4().hex}"), name=entry.name, arguments=arguments),
        content=content,
        status=entry.status,
        sessions_opened=tuple(entry.sessions_opened),
        sessions_closed=tuple(entry.sessions_closed),
    )
