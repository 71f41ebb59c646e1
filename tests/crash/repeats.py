"""Repeats of every turn of a campaign, in a fresh runtime: each says what it said, and nothing runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from perdure.actors import Agent
from perdure.storage.errors import PerdureError, TurnAbandonedError, TurnFailedError

from .board import end_process
from .clients import GaveUpError, repeat
from .journal import ClientTurn, Violation, differences

THREADS = 4
TIMEOUT_S = 60.0


def repeat_all(agent: Agent, turns: Sequence[ClientTurn]) -> Sequence[Violation]:
    """Repeat every turn that has ended; what came out differently."""
    by_conversation: dict[str, list[ClientTurn]] = defaultdict(list)
    for turn in turns:
        if turn.reply is not None or turn.failure is not None:
            by_conversation[turn.conversation_id].append(turn)
    with ThreadPoolExecutor(THREADS) as threads:
        found = threads.map(lambda item: list(_repeat_in(agent, *item)), by_conversation.items())
        return [violation for violations in found for violation in violations]


def _repeat_in(agent: Agent, conversation_id: str, turns: Sequence[ClientTurn]) -> Iterator[Violation]:
    try:
        chat = agent.conversation(conversation_id, timeout_s=TIMEOUT_S)
    except PerdureError as error:
        yield Violation(count="unopenable", text=f"{conversation_id}: {error}")
        return
    for turn in turns:
        problem = None
        try:
            again = repeat(chat, turn, TIMEOUT_S)
            problem = differences(turn.reply, again) if turn.reply is not None else f"failed, now {again.text!r}"
        except (TurnFailedError, TurnAbandonedError) as error:
            if turn.failure != str(error):
                problem = f"ended as {turn.failure or 'finished'!r}, now: {error}"
        except (PerdureError, GaveUpError) as error:
            problem = str(error)
        if problem:
            yield Violation(count="acked_lost", text=f"{turn.turn_id} repeated in the end: {problem}")
    end_process(agent, conversation_id)
