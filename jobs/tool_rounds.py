"""A tool round of a turn: which calls may run, and each result into the store as it arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..storage.fault_points import fault_point
from ..storage.records import CallId, ToolCall, ToolResult, ToolRound
from ..storage.settings import Settings
from ..storage.text import clean_text, cut_text
from .chat_model import ToolSpec
from .clock import Clock
from .memory_tools import MemoryTools
from .passages import UNKNOWN_RESULT
from .tool_runner import CallOrigin, ToolOutcome, ToolRunner
from .turn_events import ToolFinished, ToolStarted
from .turn_store import TurnStore
from .working_tools import WORKING_TOOLS, run_working_tool


class ToolRounds:
    """Runs the rounds of one turn. A call that has ended is never run again; its result is used instead."""

    def __init__(
        self,
        store: TurnStore,
        runner: ToolRunner,
        clock: Clock,
        settings: Settings,
        origin: CallOrigin,
        tools: Sequence[ToolSpec],
        memory_tools: MemoryTools | None = None,
    ) -> None:
        self._store = store
        self._runner = runner
        self._clock = clock
        self._settings = settings
        self._origin = origin
        self._memory_tools = memory_tools
        self._specs: Mapping[str, ToolSpec] = {
            **{spec.name: spec for spec in tools},
            **(memory_tools.specs if memory_tools is not None else {}),
            **WORKING_TOOLS,
        }
        self.contents: dict[CallId, str] = {}
        """Results of this attempt at the length the model is shown while the turn runs."""

    @property
    def rounds(self) -> tuple[ToolRound, ...]:
        """The turn's rounds so far, as stored."""
        return self._store.checkpoint(self._origin.turn_id).rounds

    def distinct(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """A new round's calls, an id that an earlier, other call of the turn bears replaced by a free one."""
        taken = {call.call_id: call for tool_round in self.rounds for call in tool_round.calls}
        distinct: list[ToolCall] = []
        for asked in calls:
            call, number = asked, 1
            while (same := taken.get(call.call_id)) and (same.name, same.arguments) != (call.name, call.arguments):
                number += 1
                call = replace(asked, call_id=CallId(f"{asked.call_id}~{number}"))
            if call in distinct:
                continue  # the same call twice in one answer is one call
            taken[call.call_id] = call
            distinct.append(call)
        return tuple(distinct)

    def run(self, calls: Sequence[ToolCall]) -> Iterator[ToolStarted | ToolFinished]:
        """Run a round's calls, which are committed, and commit each result as it arrives."""
        ended: list[ToolOutcome] = []
        started: list[tuple[ToolCall, ToolSpec]] = []
        for call in calls:
            yield ToolStarted(call=call)
            outcome = self._outcome_without_running(call)
            if outcome is not None:
                ended.append(outcome)
            elif call.name in WORKING_TOOLS:
                yield from self._run_working_tool(call)
            elif self._memory_tools is not None and call.name in self._memory_tools.specs:
                yield from self._commit([self._memory_tools.run(call)], {call.call_id: call})
            else:
                started.append((call, self._specs[call.name]))
        by_id = {call.call_id: call for call in calls}
        if ended:
            yield from self._commit(ended, by_id)
        if started:
            for outcomes in self._runner.run(started, self._origin):
                fault_point("result.arrived")
                yield from self._commit(outcomes, by_id)

    def resume(self, *, may_run: bool) -> Iterator[ToolStarted | ToolFinished]:
        """Deal with calls that were started and have no result: run the idempotent ones, close the others as unknown.

        Args:
            may_run: False closes all of them as unknown.
        """
        open_calls = [call for tool_round in self.rounds for call in tool_round.unfinished]
        again = [call for call in open_calls if may_run and self._is_idempotent(call.name)]
        lost = [
            ToolOutcome(call_id=call.call_id, status="unknown", content=UNKNOWN_RESULT)
            for call in open_calls
            if call not in again
        ]
        if lost:
            yield from self._commit(lost, {call.call_id: call for call in open_calls})
        if again:
            yield from self.run(again)

    def _is_idempotent(self, name: str) -> bool:
        spec = self._specs.get(name)
        return spec is not None and spec.idempotent

    def _outcome_without_running(self, call: ToolCall) -> ToolOutcome | None:
        for tool_round in self.rounds:
            result = tool_round.result(call.call_id)
            if result is not None:
                content = self.contents.get(call.call_id, result.preview)
                return ToolOutcome(call_id=call.call_id, status=result.status, content=content)
        if call.name not in self._specs:
            known = ", ".join(sorted(self._specs))
            return ToolOutcome(
                call_id=call.call_id,
                status="failed",
                content=f"There is no tool {call.name!r}. There are: {known}.",
            )
        problem = _problem_of_arguments(call.arguments)
        if problem is not None:
            return ToolOutcome(call_id=call.call_id, status="failed", content=f"The arguments are {problem}.")
        return None

    def _run_working_tool(self, call: ToolCall) -> Iterator[ToolFinished]:
        before = self._store.working_state()
        outcome, after = run_working_tool(call, before)
        result = self._result(outcome)
        self._store.record_results(
            turn_id=self._origin.turn_id,
            results=(result,),
            at=result.finished_at,
            working_state=after if after != before else None,
        )
        fault_point("result.committed")
        yield ToolFinished(call=call, status=result.status, preview=result.preview)

    def _commit(self, outcomes: Sequence[ToolOutcome], by_id: Mapping[CallId, ToolCall]) -> Iterator[ToolFinished]:
        results = tuple(self._result(outcome) for outcome in outcomes)
        self._store.record_results(turn_id=self._origin.turn_id, results=results, at=self._clock.now())
        fault_point("result.committed")
        for result in results:
            yield ToolFinished(call=by_id[result.call_id], status=result.status, preview=result.preview)

    def _result(self, outcome: ToolOutcome) -> ToolResult:
        content = clean_text(outcome.content)
        self.contents[outcome.call_id] = cut_text(content, self._settings.tools.result_chars)
        return ToolResult(
            call_id=outcome.call_id,
            status=outcome.status,
            preview=cut_text(content, self._settings.turn.preview_chars),
            sessions_opened=outcome.sessions_opened,
            sessions_closed=outcome.sessions_closed,
            finished_at=self._clock.now(),
        )


def _problem_of_arguments(arguments: str) -> str | None:
    """Why a call's arguments cannot be used, or None. No arguments at all count as an empty object."""
    if not arguments.strip():
        return None
    try:
        value = json.loads(arguments)
    except ValueError as error:
        return f"no valid JSON ({error})"
    if not isinstance(value, dict):
        return f"a JSON {type(value).__name__}, an object is needed"
    return None
