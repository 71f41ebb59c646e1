"""A driver process of a passivation campaign: threads that send turns to shared conversations, without mercy.

It gets over nothing: every call is expected to succeed, whatever ends the conversations' processes meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from perdure.actors import Agent, ConversationHandle, connect
from perdure.actors.testing import Pause, Rule, Say, Script
from perdure.storage.errors import PerdureError
from perdure.storage.records import Reply

from .clients import GaveUpError, repeat
from .journal import ClientTurn, Journal, Violation, differences
from .place import CampaignPlace
from .plans import Plan

AGENT = "passivation"
ONLY_SAY = Plan(key="", rounds=(), thinking_s=0.0, note=None)
CALL_TIMEOUT_S = 120.0
LONGEST_PAUSE_S = 1.5
"""Between two turns of a thread: short beside the idle time, so that calls meet processes that are just ending."""
STREAMED_TURNS = 0.3
REPEATED_TURNS = 0.1
READ_AFTER_TURN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Senders:
    """The threads of one driver process."""

    place: CampaignPlace
    settings: Mapping[str, Any]
    seed: int
    conversations: int
    first_client: int
    """Number of its first thread; no other driver has the same."""
    threads: int


@dataclass(slots=True, kw_only=True)
class Sent:
    """What a driver process was told, as it crosses to the campaign's."""

    turns: list[ClientTurn] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Of calls that raised one; none should."""
    calls: int = 0


def model() -> Script:
    """Says every message back, some of them late: then the process is busy when it is asked to end."""
    return Script((Rule("slow", (Pause(0.7), Say("Heard: {input}"))), Rule(None, (Say("Heard: {input}"),))))


def send_until_stopped(senders: Senders) -> Sent:
    """Send turns until the campaign's `stop` file is there."""
    journal = Journal()
    with connect(senders.place.data, settings=senders.settings) as runtime:
        agent = runtime.agent(AGENT)
        numbers = range(senders.first_client, senders.first_client + senders.threads)
        with ThreadPoolExecutor(senders.threads) as pool:
            each = list(pool.map(lambda number: _send(senders, agent, number, journal), numbers))
    return Sent(
        turns=[turn for sent in each for turn in sent.turns],
        violations=journal.violations,
        errors=[error for sent in each for error in sent.errors],
        calls=sum(sent.calls for sent in each),
    )


def _send(senders: Senders, agent: Agent, number: int, journal: Journal) -> Sent:
    sent = Sent()
    chance = random.Random(f"{senders.seed}-sender-{number}")
    for turn in _turns(senders, chance, number):
        if senders.place.stop.exists():
            break
        sent.turns.append(turn)
        try:
            sent.calls += _calls(agent, turn, chance, journal)
        except (PerdureError, GaveUpError) as error:
            sent.errors.append(f"{turn.turn_id} in {turn.conversation_id}: {type(error).__name__}: {error}")
        time.sleep(chance.uniform(0.0, LONGEST_PAUSE_S))
    return sent


def _turns(senders: Senders, chance: random.Random, number: int) -> Iterator[ClientTurn]:
    place = 0
    while True:
        turn_id = f"client-{number}-turn-{place}"
        yield ClientTurn(
            turn_id=turn_id,
            conversation_id=f"conversation-{chance.randrange(senders.conversations)}",
            client=number,
            kind="stream" if chance.random() < STREAMED_TURNS else "send",
            plan=ONLY_SAY,
            text=f"{chance.choice(('quick', 'quick', 'slow'))} {turn_id}.",
        )
        place += 1


def _calls(agent: Agent, turn: ClientTurn, chance: random.Random, journal: Journal) -> int:
    """Send the turn, and sometimes repeat it or look for it; how many calls that were."""
    chat = agent.conversation(turn.conversation_id, timeout_s=CALL_TIMEOUT_S)
    reply = _streamed(chat, turn) if turn.kind == "stream" else repeat(chat, turn, CALL_TIMEOUT_S)
    journal.acknowledged(turn, reply)
    calls = 2
    if chance.random() < REPEATED_TURNS:
        calls += 1
        if difference := differences(reply, repeat(chat, turn, CALL_TIMEOUT_S)):
            journal.violated("acked_lost", f"{turn.turn_id} repeated at once: {difference}")
    if chance.random() < READ_AFTER_TURN:
        calls += 1
        if turn.turn_id not in {row.turn_id for row in chat.history(200, timeout_s=CALL_TIMEOUT_S)}:
            journal.violated("acked_lost", f"{turn.turn_id} is not in the history right after it was acknowledged")
    return calls


def _streamed(chat: ConversationHandle, turn: ClientTurn) -> Reply:
    for event in chat.stream(turn.text, turn_id=turn.turn_id, timeout_s=CALL_TIMEOUT_S):
        if event.type == "finished":
            return event.reply
    raise GaveUpError("its stream ended without a reply")
