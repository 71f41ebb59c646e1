"""The turn: a state machine over a store, a model and tools, which may be cut off at any instruction.

Every step is committed before the next depends on it: the user message before the model is asked, the calls
before a tool starts, each result before the model sees it, the reply before anybody else does. An attempt at
an open turn therefore starts from what the store holds, whatever became of the attempt before.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol

from ..storage.errors import (
    ModelError,
    ModelUnavailableError,
    StorageError,
    TurnAbandonedError,
    TurnFailedError,
)
from ..storage.fault_points import fault_point
from ..storage.memory_keys import AgentId
from ..storage.records import Reply, TurnId
from ..storage.settings import Settings
from ..storage.text import clean_text
from .chat_model import ChatModel, ChatReply, ChatRequest, ToolSpec
from .clock import Clock
from .context import Context, build_context, gather_history
from .memory_tools import MemoryTools
from .take_over import TakenOver, take_over
from .tool_rounds import ToolRounds
from .tool_runner import CallOrigin, ToolRunner
from .turn_admission import Admitted, admit
from .turn_events import TextPiece, TurnEvent, TurnFinished
from .turn_memory import TurnMemory, recalled_for
from .turn_rows import call_summaries, interrupted_rows, reply_row, round_rows
from .turn_store import TurnStore
from .working_tools import WORKING_TOOLS

ROUND_SEPARATOR = "\n\n"
"""Stands between the texts of a turn's rounds."""


class Cancelled(Exception):  # noqa: N818 - a signal, not an error
    """Raised inside a turn, by whatever it waits on, when it is to end."""


class Cancellation(Protocol):
    """Tells a running turn that it is to end."""

    def check(self, turn_id: TurnId) -> None:
        """Raises `Cancelled` when this turn is to end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """What a turn needs to know of its agent."""

    name: str
    model: str | None = None
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    memory_id: str | None = None
    """The id under which its memories stand. None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A turn to be executed; the text is clean and not blank."""

    turn_id: TurnId
    text: str
    agent: AgentProfile


class TurnExecutor:
    """Executes turns of one conversation, one at a time."""

    def __init__(
        self,
        store: TurnStore,
        model: ChatModel,
        tools: ToolRunner,
        clock: Clock,
        settings: Settings,
        cancellation: Cancellation,
        memory: TurnMemory | None = None,
    ) -> None:
        self.store = store
        self.model = model
        self.tools = tools
        self.clock = clock
        self.settings = settings
        self.cancellation = cancellation
        self.memory = memory

    def run(self, request: TurnRequest, *, streaming: bool) -> Iterator[TurnEvent]:
        """Execute a turn, or go on with it, or tell its stored reply; `TurnFinished` comes last.

        It may be repeated with the same request after any failure, until it has ended.

        Args:
            streaming: Ask the model for its text in pieces; without, no `TextPiece` comes.

        Raises:
            TurnError: As `admit`; TurnAbandonedError when it is cancelled.
            ModelError: The turn stays open with what it had.
            StorageError: The step at hand was not stored; the turn stays open.
        """
        fault_point("turn.received")
        admitted = admit(self.store, request.turn_id, request.text, "runtime", self.clock.now(), self.settings.turn)
        if isinstance(admitted, Reply):
            yield TurnFinished(reply=admitted)
            return
        fault_point("turn.opened")
        try:
            yield from _Attempt(self, request, admitted, streaming).run()
        except Cancelled:
            now = self.clock.now()
            rows = interrupted_rows(self.store, request.turn_id, now)
            self.store.abandon_turn(turn_id=request.turn_id, messages=rows, at=now)
            raise TurnAbandonedError(request.turn_id) from None
        except ModelError as error:
            self.store.end_attempt(turn_id=request.turn_id, at=self.clock.now())
            raise error.during(request.turn_id) from error
        except StorageError:
            with suppress(StorageError):  # it lives: this attempt is not to count as a death
                self.store.end_attempt(turn_id=request.turn_id, at=self.clock.now())
            raise


class _Attempt:
    """One attempt at an open turn."""

    def __init__(self, executor: TurnExecutor, request: TurnRequest, admitted: Admitted, streaming: bool) -> None:
        self._store = executor.store
        self._executor = executor
        self._settings = executor.settings
        self._request = request
        self._turn = admitted.turn
        self._number = admitted.attempt
        self._is_expired = admitted.is_expired
        self._streaming = streaming
        self._offset = 0
        identity = executor.store.identity
        origin = CallOrigin(
            agent=identity.agent,
            conversation_id=identity.conversation_id,
            contact=identity.contact,
            turn_id=request.turn_id,
        )
        memory_id = request.agent.memory_id
        self._memory_tools = (
            MemoryTools(executor.memory, AgentId(memory_id), origin, executor.settings, request.agent.tools)
            if executor.memory is not None and memory_id is not None
            else None
        )
        self._rounds = ToolRounds(
            executor.store,
            executor.tools,
            executor.clock,
            executor.settings,
            origin,
            request.agent.tools,
            self._memory_tools,
        )

    def run(self) -> Iterator[TurnEvent]:
        now = self._executor.clock.now()
        yield from self._rounds.resume(may_run=not self._is_expired)
        first_shown = len(self._rounds.rounds) if self._is_expired else 0
        is_resumed = first_shown < len(self._rounds.rounds)
        for tool_round in self._rounds.rounds[first_shown:]:
            yield from self._piece(tool_round.text)

        taken_over = take_over(self._store, self._turn, now, self._settings.turn)
        history = gather_history(self._store, self._settings.context, turn_id=self._turn.turn_id)
        recalled = recalled_for(
            self._executor.memory, self._request.agent.memory_id, self._store.identity.contact, self._request.text
        )
        while True:
            self._executor.cancellation.check(self._turn.turn_id)
            shown = self._rounds.rounds[first_shown:]
            may_call = len(shown) < self._settings.turn.max_tool_rounds
            context = build_context(
                system_prompt=self._request.agent.system_prompt,
                working_state=self._store.working_state(),
                history=history,
                text=self._request.text,
                rounds=shown,
                contents=self._rounds.contents,
                resumed=taken_over.resumed,
                recalled=recalled,
                settings=self._settings,
                must_answer=not may_call,
            )
            fault_point("turn.context_built")
            reply = yield from self._ask(context, self._offered() if may_call else ())
            fault_point("model.replied")
            if not reply.tool_calls:
                break
            if not may_call:
                self._fail(f"the model asked for tools after {len(shown)} rounds, the most that are allowed")
            yield from self._run_round(reply)

        finished = self._finish(reply, first_shown, taken_over, is_resumed or taken_over.has_results)
        yield TurnFinished(reply=finished)

    def _offered(self) -> tuple[ToolSpec, ...]:
        memory_tools = self._memory_tools.specs.values() if self._memory_tools is not None else ()
        return (*self._request.agent.tools, *memory_tools, *WORKING_TOOLS.values())

    def _ask(self, context: Context, tools: tuple[ToolSpec, ...]) -> Generator[TextPiece, None, ChatReply]:
        request = ChatRequest(
            model=self._request.agent.model,
            messages=context.messages,
            tools=tools,
            timeout_s=self._settings.models.timeout_s,
        )
        if not self._streaming:
            reply = self._executor.model.complete(request)
            return replace(reply, text=clean_text(reply.text))
        is_first = True
        for item in self._executor.model.stream(request):
            if isinstance(item, ChatReply):
                return replace(item, text=clean_text(item.text))
            yield from self._piece(clean_text(item), starts=is_first)
            is_first = False
        raise ModelUnavailableError(request.shown_model, "its stream ended without a reply")

    def _piece(self, text: str, *, starts: bool = True) -> Iterator[TextPiece]:
        if not self._streaming or not text:
            return
        if starts and self._offset:
            text = ROUND_SEPARATOR + text
        yield TextPiece(attempt=self._number, offset=self._offset, text=text)
        self._offset += len(text)

    def _run_round(self, reply: ChatReply) -> Iterator[TurnEvent]:
        calls = self._rounds.distinct(reply.tool_calls)
        self._store.record_calls(
            turn_id=self._turn.turn_id,
            text=reply.text,
            calls=calls,
            usage=reply.usage,
            at=self._executor.clock.now(),
        )
        fault_point("calls.committed")
        yield from self._rounds.run(calls)

    def _finish(self, last: ChatReply, first_shown: int, taken_over: TakenOver, is_resumed: bool) -> Reply:
        now = self._executor.clock.now()
        rounds = self._rounds.rounds
        texts = [tool_round.text for tool_round in rounds[first_shown:]] + [last.text]
        reply = Reply(
            turn_id=self._turn.turn_id,
            text=ROUND_SEPARATOR.join(text for text in texts if text),
            tool_calls=call_summaries(rounds),
            usage=sum((tool_round.usage for tool_round in rounds), last.usage),
            resumed=is_resumed,
        )
        fault_point("turn.before_finish")
        self._store.finish_turn(
            turn_id=self._turn.turn_id,
            reply=reply,
            messages=[
                *taken_over.rows(),
                *round_rows(self._turn.turn_id, rounds),
                reply_row(self._turn.turn_id, last.text, now),
            ],
            absorbed=[checkpoint.turn_id for checkpoint in taken_over.checkpoints],
            at=now,
        )
        fault_point("turn.finished")
        return reply

    def _fail(self, reason: str) -> NoReturn:
        now = self._executor.clock.now()
        rows = interrupted_rows(self._store, self._turn.turn_id, now)
        self._store.fail_turn(turn_id=self._turn.turn_id, error=reason, messages=rows, at=now)
        raise TurnFailedError(self._turn.turn_id, reason)
