"""Tool calls and results as the model sees them while a turn runs: its own rounds, and those it took over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..storage.records import CallId, ToolCall, ToolResult, ToolRound
from ..storage.text import cut_text
from .passages import (
    UNKNOWN_RESULT,
    Passage,
    allot,
    data_passage,
    escaped,
    least_of,
    on_one_line,
    passage,
    result_passage,
    tokens_of,
)

_OLDER_SHARE = 4  # a quarter of the room is divided evenly before the newest results take the rest
_SESSIONS_NAMED = 20
_ARGUMENTS_CHARS = 300  # shown of the arguments of a call that was taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What a turn takes over from turns that broke off."""

    rounds: tuple[ToolRound, ...]
    """Oldest first."""
    open_sessions: tuple[str, ...] = ()
    """Browser sessions that these rounds opened and did not close."""
    is_complete: bool = True
    """False: more was recorded, and it cannot be read."""


def round_passages(tool_round: ToolRound, contents: Mapping[CallId, str]) -> tuple[Passage, ...]:
    """A round as an assistant message and a tool message for each of its calls, in their order.

    Args:
        contents: Results that are at hand in full; of the others the stored preview is shown.
    """
    asked = passage("assistant", tool_round.text, tool_calls=tool_round.calls)
    return (asked, *(_answer(call, tool_round.result(call.call_id), contents) for call in tool_round.calls))


def _answer(call: ToolCall, result: ToolResult | None, contents: Mapping[CallId, str]) -> Passage:
    if result is None:
        return result_passage(call.call_id, "unknown", "")
    return result_passage(call.call_id, result.status, contents.get(call.call_id, result.preview))


def fit_rounds(rounds: Sequence[Sequence[Passage]], collapsible: Sequence[ToolRound], room: int) -> list[Passage]:
    """The rounds in so many tokens: the newest results longest, older ones shortened first.

    Where the calls alone are too many, the oldest rounds become one passage that lists them.

    Args:
        rounds: Oldest first.
        collapsible: The same rounds, for that list.
    """
    if sum(map(tokens_of, rounds)) <= room:
        return [one for group in rounds for one in group]
    needed = sum(map(least_of, rounds))
    if needed <= room:
        return _newest_longest(rounds, room)
    for collapsed, group in enumerate(rounds, start=1):
        needed -= least_of(group)
        if needed + _LEAST_OF_LIST <= room:
            return _newest_longest([[_earlier_calls(collapsible[:collapsed])], *rounds[collapsed:]], room)
    return []


def _earlier_calls(rounds: Sequence[ToolRound]) -> Passage:
    """A list of calls, their names, arguments and statuses on a line each."""
    lines = [
        f"{on_one_line(call.name, 64)} {on_one_line(call.arguments, 80)} {_status(tool_round, call)}"
        for tool_round in rounds
        for call in tool_round.calls
    ]
    return _list_of_calls("\n".join(lines))


def _list_of_calls(lines: str) -> Passage:
    heading = "Calls made earlier in this turn; their results are no longer shown:"
    return data_passage("earlier_calls", lines, heading=heading)


_LEAST_OF_LIST = _list_of_calls("x" * 1000).least


def _status(tool_round: ToolRound, call: ToolCall) -> str:
    result = tool_round.result(call.call_id)
    return "unknown" if result is None else result.status


def _newest_longest(groups: Sequence[Sequence[Passage]], room: int) -> list[Passage]:
    """The passages of the groups, oldest first, in so many tokens, at least `least_of` them."""
    flat = [one for group in groups for one in group]
    wanted, least = [one.tokens for one in flat], [one.least for one in flat]
    given = allot(wanted, least, sum(least) + (room - sum(least)) // _OLDER_SHARE)
    rest = room - sum(given)
    end = len(flat)
    for group in reversed(groups):
        span = slice(end - len(group), end)
        before = sum(given[span])
        given[span] = allot(wanted[span], given[span], before + rest)
        rest -= sum(given[span]) - before
        end = span.start
    return [one.shortened(tokens) for one, tokens in zip(flat, given, strict=True)]


class ResumedResults:
    """The passages that tell of results taken over from broken turns."""

    def __init__(self, resumed: Resumed, rounds: Sequence[ToolRound], max_results: int) -> None:
        """Prepare them.

        Args:
            rounds: Of this turn; a session that they closed is no longer open.
            max_results: The newest are shown.
        """
        closed = {name for one in rounds for result in one.results for name in result.sessions_closed}
        self._sessions = [name for name in resumed.open_sessions if name not in closed]
        self._is_complete = resumed.is_complete
        results = [(call, one.result(call.call_id)) for one in resumed.rounds for call in one.calls]
        self._shown = [_taken_over(call, result) for call, result in results[-max_results:]]
        self._left_out = len(results) - len(self._shown)

    @property
    def tokens(self) -> int:
        """What they take if nothing is shortened."""
        return tokens_of([*self._introduction(0), *self._shown])

    def fit(self, room: int) -> list[Passage]:
        """The passages in so many tokens: newest results longest; where all are too many, the oldest go."""
        least = [one.least for one in self._shown]
        for dropped in range(len(self._shown) + 1):
            introduction = self._introduction(dropped)
            rest = room - tokens_of(introduction)
            if sum(least[dropped:]) <= rest:
                shown = [[one] for one in self._shown[dropped:]]
                return [*introduction, *_newest_longest(shown, rest)]
        return [one.shortened(room) for one in self._introduction(len(self._shown)) if one.least <= room]

    def _introduction(self, dropped: int) -> list[Passage]:
        sentences = []
        if self._shown:
            sentences.append(
                "A turn of this conversation was interrupted. These results come from it;"
                " use them, their calls need not be repeated."
            )
        if left_out := self._left_out + dropped:
            sentences.append(f"{left_out:,} older results of it are not shown.")
        if not self._is_complete:
            sentences.append("Later results of it could not be read: what they were for may have happened.")
        if self._sessions:
            named = ", ".join(on_one_line(name, 80) for name in self._sessions[:_SESSIONS_NAMED])
            more = len(self._sessions) - _SESSIONS_NAMED
            sentences.append(f"Browser sessions still open: {named}{f' and {more:,} more' if more > 0 else ''}.")
        return [passage("user", f"[{' '.join(sentences)}]")] if sentences else []


def _taken_over(call: ToolCall, result: ToolResult | None) -> Passage:
    status = "unknown" if result is None else result.status
    arguments = escaped(cut_text(call.arguments, _ARGUMENTS_CHARS))
    return passage(
        "user",
        UNKNOWN_RESULT if result is None or status == "unknown" else escaped(result.preview),
        before=f"<tool_result tool={on_one_line(call.name, 64)} status={status}>\n{arguments}\n",
        after="\n</tool_result>",
    )
