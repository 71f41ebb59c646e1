"""A turn's time and outcome, told by what a turn waits for: its store, its model, its tools.

The turn itself (`jobs/turn.py`) knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from ..jobs.chat_model import ChatModel, ChatReply, ChatRequest, ToolSpec
from ..jobs.tool_runner import CallOrigin, ToolOutcome, ToolRunner
from ..storage.errors import ModelError
from ..storage.records import ToolCall
from ..storage.replay import replayable_methods
from .metrics import COMMIT_SECONDS, STAGE_SECONDS, TOOL_CALL_SECONDS, TOOL_CALLS, TURN_SECONDS, TURNS
from .tally import Tally

if TYPE_CHECKING:
    from ..storage.conversation_store import ConversationStore

Stage = Literal["open", "context", "model", "tools", "record", "finish"]

_STAGES: dict[str, Stage] = {
    "open_turn": "open",
    "begin_attempt": "open",
    "record_calls": "record",
    "record_results": "record",
    "finish_turn": "finish",
    "fail_turn": "finish",
    "abandon_turn": "finish",
    "end_attempt": "finish",
}
"""Of the store's writes."""
_ENDINGS = {"finish_turn": "finished", "fail_turn": "failed", "abandon_turn": "abandoned"}

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class TurnWatch:
    """Measures what the thread that executes a conversation's turns does; that thread alone calls."""

    def __init__(self, tally: Tally, agent: str) -> None:
        self._tally = tally
        self._agent = agent
        self._stages: dict[Stage, float] = {}
        self._has_ended = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """An attempt at a turn."""
        self._stages, self._has_ended = {}, False
        started = perf_counter()
        try:
            yield
        except BaseException as error:
            self._ended(started, "model_error" if isinstance(error, ModelError) else "interrupted")
            raise
        self._ended(started, "repeated")

    def _ended(self, started: float, outcome: str) -> None:
        """Count an attempt; the outcome is for one that has not ended its turn."""
        if not self._has_ended:
            self._tally.count(TURNS, self._agent, outcome if self._stages or outcome == "repeated" else "refused")
        if not self._stages:
            return
        elapsed_s = perf_counter() - started
        self._tally.observe(TURN_SECONDS, elapsed_s, self._agent)
        self._stages["context"] = max(0.0, elapsed_s - sum(self._stages.values()))
        for stage, stage_s in self._stages.items():
            self._tally.observe(STAGE_SECONDS, stage_s, self._agent, stage)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """A wait of the turn."""
        started = perf_counter()
        try:
            yield
        finally:
            self._stages[stage] = self._stages.get(stage, 0.0) + perf_counter() - started

    def waits(self, stage: Stage, items: Iterable[Item]) -> Iterator[Item]:
        """The items; only the waits for them count, not what is done with them."""
        iterator = iter(items)
        while True:
            with self.stage(stage):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def watched(self, store: ConversationStore) -> ConversationStore:
        """The store, with each write timed, and the ends of turns counted, the driver's own among them."""
        for name in replayable_methods(type(store)):
            setattr(store, name, self._timed(name, getattr(store, name)))
        return store

    def _timed(self, step: str, write: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        stage, outcome = _STAGES.get(step), _ENDINGS.get(step)

        @wraps(write)
        def timed(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            started = perf_counter()
            try:
                result = write(*arguments, **named)
            finally:
                elapsed_s = perf_counter() - started
                if stage is not None:
                    self._stages[stage] = self._stages.get(stage, 0.0) + elapsed_s
            self._tally.observe(COMMIT_SECONDS, elapsed_s, step)
            if outcome is not None:
                self._has_ended = True
                self._tally.count(TURNS, self._agent, outcome)
                absorbed: Any = named.get("absorbed", ())
                for _ in absorbed:
                    self._tally.count(TURNS, self._agent, "abandoned")
            return result

        return timed


class WatchedChat:
    """A model, its answers waited for under a watch."""

    def __init__(self, model: ChatModel, watch: TurnWatch) -> None:
        self._model = model
        self._watch = watch

    def complete(self, request: ChatRequest) -> ChatReply:
        """See `jobs.chat_model.ChatModel`."""
        with self._watch.stage("model"):
            return self._model.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        """See `jobs.chat_model.ChatModel`."""
        return self._watch.waits("model", self._model.stream(request))


class WatchedTools:
    """Tools, their outcomes counted and waited for under a watch."""

    def __init__(self, tools: ToolRunner, watch: TurnWatch, tally: Tally, agent: str) -> None:
        self._tools = tools
        self._watch = watch
        self._tally = tally
        self._agent = agent

    def run(self, calls: Sequence[tuple[ToolCall, ToolSpec]], origin: CallOrigin) -> Iterator[Sequence[ToolOutcome]]:
        """See `jobs.tool_runner.ToolRunner`."""
        names = {call.call_id: call.name for call, _ in calls}
        started = perf_counter()
        for outcomes in self._watch.waits("tools", self._tools.run(calls, origin)):
            elapsed_s = perf_counter() - started
            for outcome in outcomes:
                tool = names[outcome.call_id]
                self._tally.count(TOOL_CALLS, self._agent, tool, outcome.status)
                self._tally.observe(TOOL_CALL_SECONDS, elapsed_s, self._agent, tool)
            yield outcomes
