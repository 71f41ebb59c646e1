"""Turns of drivers with a model loop of their own: the same steps as `turn.py`, one call each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..storage.errors import InvalidInputError, TurnAbandonedError, TurnNotFoundError, TurnNotOpenError
from ..storage.records import CallId, CallStatus, Reply, ToolCall, ToolResult, Turn, TurnId, Usage
from ..storage.settings import Settings
from ..storage.text import check_text, clean_text, cut_text
from .chat_model import ChatMessage
from .clock import Clock
from .context import build_context, gather_history
from .take_over import take_over
from .turn import ROUND_SEPARATOR, AgentProfile, TurnRequest
from .turn_admission import admit, stored_reply
from .turn_memory import TurnMemory, recalled_for
from .turn_rows import call_summaries, closed, interrupted_rows, reply_row, round_rows
from .turn_store import TurnStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCall:
    """A tool call that a driver has run itself, with its result."""

    call: ToolCall
    content: str
    status: CallStatus = "succeeded"
    sessions_opened: tuple[str, ...] = ()
    sessions_closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTurnView:
    """A driver's turn as it stands."""

    turn_id: TurnId
    messages: tuple[ChatMessage, ...]
    """What its model should see now; empty once the turn has ended."""
    reply: Reply | None = None
    """The stored reply of a finished turn."""


class DriverTurns:
    """The steps of turns that a driver runs. Every step is durable on return and may be repeated."""

    def __init__(self, store: TurnStore, clock: Clock, settings: Settings, memory: TurnMemory | None = None) -> None:
        self._store = store
        self._memory = memory
        self._clock = clock
        self._settings = settings

    def begin(self, request: TurnRequest) -> DriverTurnView:
        """Open a turn, or go on with an open one, or tell a finished one's reply.

        Raises:
            TurnError: As `admit`.
        """
        admitted = admit(self._store, request.turn_id, request.text, "driver", self._clock.now(), self._settings.turn)
        if isinstance(admitted, Reply):
            return DriverTurnView(turn_id=admitted.turn_id, messages=(), reply=admitted)
        return self.view(request.turn_id, request.agent)

    def view(self, turn_id: TurnId, agent: AgentProfile) -> DriverTurnView:
        """An open turn with what its model should see now.

        Raises:
            TurnNotFoundError, TurnNotOpenError, CheckpointUnreadableError: There is none to be seen.
        """
        checkpoint = self._store.checkpoint(turn_id)
        turn = self._open(turn_id)
        text = self._store.message_at(turn.user_seq).content
        context = build_context(
            system_prompt=agent.system_prompt,
            working_state=self._store.working_state(),
            history=gather_history(self._store, self._settings.context, turn_id=turn_id),
            text=text,
            rounds=checkpoint.rounds,
            contents={},
            resumed=take_over(self._store, turn, turn.opened_at, self._settings.turn).resumed,
            recalled=recalled_for(self._memory, agent.memory_id, self._store.identity.contact, text),
            settings=self._settings,
        )
        return DriverTurnView(turn_id=turn_id, messages=context.messages)

    def record_tool_round(self, turn_id: TurnId, text: str, ran: Sequence[RanCall], usage: Usage) -> None:
        """Store a round of calls with their results, in one commit. The same round again stores nothing.

        Raises:
            InvalidInputError: Some call ids are taken by other calls of the turn.
            TurnError: The turn is not open.
        """
        if not ran:
            raise InvalidInputError("results", "the list is empty", "give the calls of the round with their results")
        calls = tuple(entry.call for entry in ran)
        ids = [call.call_id for call in calls]
        if len(set(ids)) != len(ids):
            raise InvalidInputError("results", "a call_id stands twice in the round", "give each call its own id")
        now = self._clock.now()
        results = tuple(self._result(entry, now) for entry in ran)
        for tool_round in self._store.checkpoint(turn_id).rounds:
            if tool_round.calls == calls and [_told(one) for one in tool_round.results] == [
                _told(one) for one in results
            ]:
                return
            taken = {call.call_id for call in tool_round.calls}.intersection(ids)
            if taken:
                raise InvalidInputError(
                    "results",
                    f"call_id {min(taken)!r} is stored already, with another call or result",
                    "a call's id is its own within the turn; repeat a round whole, or use new ids",
                )
        self._store.record_round(
            turn_id=turn_id,
            text=clean_text(text),
            calls=calls,
            results=results,
            usage=usage,
            at=now,
        )

    def finish(self, turn_id: TurnId, text: str, usage: Usage) -> Reply:
        """Store the reply and end the turn. The same text again gives the stored reply.

        Raises:
            TurnNotOpenError: It has ended with another reply.
            TurnError: It has ended otherwise, or is not there.
        """
        turn = self._known(turn_id)
        text = check_text(text, "text", self._settings.turn.max_text_chars)
        if turn.state != "open":
            reply = stored_reply(self._store, turn)
            if reply.turn_id == turn_id and reply.text.endswith(text):
                return reply
            raise TurnNotOpenError(turn_id, "finished with another reply")
        now = self._clock.now()
        taken_over = take_over(self._store, turn, turn.opened_at, self._settings.turn)
        rounds = [closed(tool_round, now) for tool_round in self._store.checkpoint(turn_id).rounds]
        texts = [tool_round.text for tool_round in rounds] + [text]
        reply = Reply(
            turn_id=turn_id,
            text=ROUND_SEPARATOR.join(part for part in texts if part),
            tool_calls=call_summaries(rounds),
            usage=sum((tool_round.usage for tool_round in rounds), usage),
            resumed=taken_over.has_results,
        )
        self._store.finish_turn(
            turn_id=turn_id,
            reply=reply,
            messages=[*taken_over.rows(), *round_rows(turn_id, rounds), reply_row(turn_id, text, now)],
            absorbed=[checkpoint.turn_id for checkpoint in taken_over.checkpoints],
            at=now,
        )
        return reply

    def abandon(self, turn_id: TurnId) -> None:
        """Give an open turn up; what it did stays in the history. An abandoned one stays so.

        Raises:
            TurnNotFoundError, TurnNotOpenError: There is none to give up.
        """
        turn = self._known(turn_id)
        if turn.state == "abandoned":
            return
        if turn.state != "open":
            raise TurnNotOpenError(turn_id, turn.state)
        now = self._clock.now()
        rows = interrupted_rows(self._store, turn_id, now)
        self._store.abandon_turn(turn_id=turn_id, messages=rows, at=now)

    def _result(self, ran: RanCall, at: datetime) -> ToolResult:
        return ToolResult(
            call_id=ran.call.call_id,
            status=ran.status,
            preview=cut_text(clean_text(ran.content), self._settings.turn.preview_chars),
            sessions_opened=ran.sessions_opened,
            sessions_closed=ran.sessions_closed,
            finished_at=at,
        )

    def _known(self, turn_id: TurnId) -> Turn:
        turn = self._store.turn(turn_id)
        if turn is None:
            raise TurnNotFoundError(turn_id)
        return turn

    def _open(self, turn_id: TurnId) -> Turn:
        turn = self._known(turn_id)
        if turn.state == "abandoned":
            raise TurnAbandonedError(turn_id, turn.absorbed_by)
        if turn.state != "open":
            raise TurnNotOpenError(turn_id, turn.state)
        return turn


def _told(result: ToolResult) -> tuple[CallId, CallStatus, str]:
    """What makes two results the same."""
    return result.call_id, result.status, result.preview
