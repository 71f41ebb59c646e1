"""Every metric there is, declared once: what counts it, what exports it and the README's table all go by this.

Ray puts `ray_` before the names. No tag ever holds an id of a conversation, a turn or a contact: their number has
no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds of the histograms' buckets: from a commit to the longest model answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric. Counters and gauges have no boundaries."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    tags: tuple[str, ...]
    meaning: str
    boundaries: tuple[float, ...] = ()


TURNS = Metric(
    name="perdure_turns_total",
    kind="counter",
    tags=("agent", "outcome"),
    meaning="attempts at turns: `finished`, `failed`, `abandoned`; `model_error` and `interrupted` leave the turn open;"
    " `repeated` gave a stored reply; `refused` ran nothing",
)
TURN_SECONDS = Metric(
    name="perdure_turn_seconds",
    kind="histogram",
    tags=("agent",),
    meaning="an attempt at a turn that the runtime executes, inside its conversation's process",
    boundaries=SECONDS,
)
STAGE_SECONDS = Metric(
    name="perdure_turn_stage_seconds",
    kind="histogram",
    tags=("agent", "stage"),
    meaning="where those seconds go, by turn: `open`, `record` and `finish` are commits, `model` and `tools` waits,"
    " `context` is all the rest",
    boundaries=SECONDS,
)
COMMIT_SECONDS = Metric(
    name="perdure_commit_seconds",
    kind="histogram",
    tags=("step",),
    meaning="commits to conversation files, by what they store",
    boundaries=SECONDS,
)
TOOL_CALLS = Metric(
    name="perdure_tool_calls_total",
    kind="counter",
    tags=("agent", "tool", "outcome"),
    meaning="tool calls that ran, by how they ended",
)
TOOL_CALL_SECONDS = Metric(
    name="perdure_tool_call_seconds",
    kind="histogram",
    tags=("agent", "tool"),
    meaning="from a call's start to its result, in the conversation's process",
    boundaries=SECONDS,
)
ACTIVATIONS = Metric(
    name="perdure_activations_total",
    kind="counter",
    tags=("agent",),
    meaning="conversations that a process has taken over: at their first call, after passivation, after a crash",
)
PASSIVATIONS = Metric(
    name="perdure_passivations_total",
    kind="counter",
    tags=("agent",),
    meaning="conversations whose process ended because they were idle or beyond the cap",
)
LIVE_CONVERSATIONS = Metric(
    name="perdure_live_conversations",
    kind="gauge",
    tags=("agent",),
    meaning="conversations that have a process now",
)
OUTBOX_DEPTH = Metric(
    name="perdure_outbox_depth_messages",
    kind="gauge",
    tags=("consumer",),
    meaning="messages of live conversations that a consumer has not had yet",
)
OUTBOX_MESSAGES = Metric(
    name="perdure_outbox_messages_total",
    kind="counter",
    tags=("consumer", "outcome"),
    meaning="messages that a consumer has taken (`delivered`) or could not take (`parked`)",
)
ERRORS = Metric(
    name="perdure_errors_total",
    kind="counter",
    tags=("agent", "type"),
    meaning="errors that a conversation's process answered a call with",
)

METRICS = (
    TURNS,
    TURN_SECONDS,
    STAGE_SECONDS,
    COMMIT_SECONDS,
    TOOL_CALLS,
    TOOL_CALL_SECONDS,
    ACTIVATIONS,
    PASSIVATIONS,
    LIVE_CONVERSATIONS,
    OUTBOX_DEPTH,
    OUTBOX_MESSAGES,
    ERRORS,
)
