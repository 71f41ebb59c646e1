"""A result larger than the window must not overflow it inside a turn; no cut parts a call from its result.

letta-ai/letta#1635; cloudflare/agents docs/agents/sessions.md; langchain-ai/langchain#38352, #34282;
langchain-ai/deepagents#270; 7df-lab/devo#186
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.jobs.context import Context, build_context, gather_history
from perdure.storage.records import CallId, StoredMessage, ToolRound, WorkingState
from perdure.storage.settings import Settings
from perdure.storage.tokens import estimate_message_tokens
from tests.unit.stored_history import StoredHistory, call, dialogue, message, tool_round

BUDGET = 8000


def shown_to_the_model(
    rounds: list[ToolRound], stored: list[StoredMessage] | None = None, budget: int = BUDGET
) -> Context:
    settings = replace(Settings(), context=replace(Settings().context, budget_tokens=budget))
    return build_context(
        system_prompt="You help.",
        working_state=WorkingState(),
        history=gather_history(StoredHistory(stored or []), settings.context, turn_id=None),
        text="What did we say about the garden?",
        rounds=rounds,
        contents={one.calls[0].call_id: one.results[0].preview for one in rounds if one.results},
        resumed=None,
        settings=settings,
    )


def tokens(context: Context) -> int:
    return sum(estimate_message_tokens(one.content, one.tool_calls) for one in context.messages)


@pytest.mark.parametrize("text", ["memory of the garden, ", "庭の思い出、", '{"memory": ["garden"]}, '])
def test_a_result_of_three_times_the_budget_does_not_overflow_the_window(text: str) -> None:
    found = text * (3 * BUDGET * 4 // len(text))
    context = shown_to_the_model([tool_round(("c1", found))], dialogue(f"we said {n}" for n in range(100)))
    assert tokens(context) <= BUDGET
    asked, answer = context.messages[-2:]
    assert asked.tool_calls[0].call_id == answer.call_id == "c1"
    assert text.strip() in answer.content
    assert "characters left out]" in answer.content
    assert "What did we say about the garden?" in [one.content for one in context.messages]


def test_round_after_round_of_large_results_stays_within_the_window_and_the_newest_is_readable() -> None:
    rounds: list[ToolRound] = []
    for number in range(40):
        rounds.append(tool_round((f"c{number}", f"result {number} " + "r" * 30_000)))
        context = shown_to_the_model(rounds, dialogue(f"we said {n}" for n in range(100)))
        assert tokens(context) <= BUDGET
        assert len(context.messages[-1].content) > 5000
        assert f"result {number} " in context.messages[-1].content


def test_a_call_in_flight_stays_in_view_while_the_history_is_cut_around_it() -> None:
    stored = dialogue("x" * 2000 for _ in range(100))
    pending = ToolRound(text="", calls=(call("pending"),), asked_at=stored[0].created_at)
    before = shown_to_the_model([pending], stored)
    assert [one.call_id for one in before.messages[-2].tool_calls] == ["pending"]
    after = shown_to_the_model([tool_round(("pending", "it came"))], stored)
    assert after.messages[-1].call_id == "pending"
    assert "it came" in after.messages[-1].content


def test_ten_parallel_calls_and_their_results_are_on_one_side_of_every_cut() -> None:
    calls = [call(f"c{n}") for n in range(10)]
    stored = [*dialogue("y" * 100 for _ in range(40)), message(40, "assistant", "", calls=calls)]
    stored += [message(41 + n, "tool", f"r{n} " * 30, call_id=f"c{n}", status="succeeded") for n in range(10)]
    for newer in range(0, 60, 3):
        history = [*stored, *(message(51 + n, "user", "z" * 100) for n in range(newer))]
        for budget in (600, 1000, 1500, 2000):
            context = shown_to_the_model([], history, budget)
            asked = [one.call_id for shown in context.messages for one in shown.tool_calls]
            answered = [shown.call_id for shown in context.messages if shown.role == "tool"]
            assert asked == answered
            assert asked in ([], [CallId(f"c{n}") for n in range(10)])
            assert tokens(context) <= budget
