"""Tools as Ray tasks: one process a call, killed at its timeout, never retried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError, WorkerCrashedError

from ..jobs.chat_model import ToolSpec
from ..jobs.tool_runner import CallOrigin, ToolOutcome
from ..storage.agent_options import ToolRecord
from ..storage.fault_points import fault_point
from ..storage.records import ToolCall
from ..storage.settings import ToolSettings
from .tool_process import ToolTask, run_tool

CANCEL_POLL_S = 0.05
"""How often a wait looks whether its turn is to end."""

_run_tool = ray.remote(num_cpus=0, max_retries=0)(run_tool)


class ToolTasks:
    """Runs calls as Ray tasks. A call that crashes its process, or hangs, takes nothing else with it."""

    def __init__(self, settings: ToolSettings, check_cancelled: Callable[[], None]) -> None:
        self._settings = settings
        self._check_cancelled = check_cancelled
        self.records: Mapping[str, ToolRecord] = {}
        """The tools of the turn at hand, by name."""
        self.code: Mapping[str, bytes] = {}
        """Pickled functions that came with the call, by tool."""

    def run(self, calls: Sequence[tuple[ToolCall, ToolSpec]], origin: CallOrigin) -> Iterator[Sequence[ToolOutcome]]:
        """Start all calls side by side; give outcomes as they end. See `jobs.tool_runner.ToolRunner`."""
        started = time.monotonic()
        pending: dict[Any, tuple[ToolCall, float]] = {}
        for call, spec in calls:
            timeout_s = spec.timeout_s if spec.timeout_s is not None else self._settings.timeout_s
            task = ToolTask(
                call=call,
                record=self.records[call.name],
                code=self.code.get(call.name),
                origin=origin,
                result_chars=self._settings.result_chars,
            )
            reference = _run_tool.options(name=f"tool {call.name}").remote(task)
            pending[reference] = (call, started + timeout_s)
        fault_point("tools.started")
        try:
            while pending:
                ended = self._await_some(pending)
                if ended:
                    yield ended
        finally:
            for reference in pending:  # cancelled, or the turn cannot go on
                ray.cancel(reference, force=True)

    def _await_some(self, pending: dict[Any, tuple[ToolCall, float]]) -> Sequence[ToolOutcome]:
        self._check_cancelled()
        until_next_limit = min(limit for _, limit in pending.values()) - time.monotonic()
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=min(CANCEL_POLL_S, max(0.0, until_next_limit)))
        if ready and len(pending) > 1:
            ready, _ = ray.wait(list(pending), num_returns=len(pending), timeout=0)
        outcomes = [_outcome(reference, pending.pop(reference)[0]) for reference in ready]
        now = time.monotonic()
        for reference in [reference for reference, (_, limit) in pending.items() if limit <= now]:
            call, _ = pending.pop(reference)
            ray.cancel(reference, force=True)
            outcomes.append(
                ToolOutcome(
                    call_id=call.call_id,
                    status="timed_out",
                    content="The tool was killed at its time limit; what it did until then may have happened.",
                )
            )
        return outcomes


def _outcome(reference: Any, call: ToolCall) -> ToolOutcome:
    try:
        outcome = ray.get(reference)
    except (WorkerCrashedError, TaskCancelledError) as error:
        return ToolOutcome(
            call_id=call.call_id,
            status="crashed",
            content=f"The tool's process died ({type(error).__name__}); what it did until then may have happened.",
        )
    except RayError as error:
        return ToolOutcome(
            call_id=call.call_id,
            status="crashed",
            content=f"The tool's process was lost ({type(error).__name__}); it may or may not have run.",
        )
    assert isinstance(outcome, ToolOutcome)
    return outcome
