"""The live conversations of a campaign, and which turns are in flight in them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from perdure.actors import Agent, ConversationHandle
from perdure.actors.placement import ConversationPlace
from perdure.storage.records import ConversationId

from .journal import ClientTurn, Journal
from .plans import Plan

OPENING_TIMEOUT_S = 60.0
OPENED_EARLY = 0.2


@dataclass(slots=True, kw_only=True)
class LiveConversation:
    """A conversation that clients send turns to."""

    chat: ConversationHandle
    notes_left: list[Plan]
    """Plans with a note that it has not had yet."""
    users: int = 0

    @property
    def id(self) -> str:
        """Its id."""
        return self.chat.conversation_id


@dataclass(slots=True)
class Board:
    """Shared by clients and killer."""

    agent: Agent
    plans: Sequence[Plan]
    journal: Journal
    conversations_wanted: int
    stop: threading.Event = field(default_factory=threading.Event)
    is_new_wanted: threading.Event = field(default_factory=threading.Event)
    """Set, the next turn goes to a conversation that has no file yet."""
    opened: list[str] = field(default_factory=list)
    """Ids of all conversations that there ever were."""
    registered: list[str] = field(default_factory=list)
    """Of those, the ones whose registration was acknowledged."""
    _live: list[LiveConversation] = field(default_factory=list)
    _in_flight: dict[str, LiveConversation] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def conversation(self, chance: random.Random) -> Iterator[LiveConversation]:
        """A conversation for a client's next turn: a live one, or a new one."""
        taken = self._take(chance)
        try:
            yield taken
        finally:
            with self._lock:
                taken.users -= 1
            self._retire_surplus()

    @contextmanager
    def in_flight(self, turn: ClientTurn, conversation: LiveConversation) -> Iterator[None]:
        """While a turn is under way."""
        with self._lock:
            self._in_flight[turn.turn_id] = conversation
        try:
            yield
        finally:
            with self._lock:
                del self._in_flight[turn.turn_id]

    def turns_in_flight(self) -> Sequence[tuple[str, LiveConversation]]:
        """Turn ids with their conversations."""
        with self._lock:
            return list(self._in_flight.items())

    def live(self) -> Sequence[LiveConversation]:
        """The conversations that are not retired."""
        with self._lock:
            return list(self._live)

    def _take(self, chance: random.Random) -> LiveConversation:
        with self._lock:
            if not self._is_new_due(chance):
                taken = chance.choice(self._live)
                taken.users += 1
                return taken
            self.is_new_wanted.clear()
            conversation_id = f"conversation-{len(self.opened)}"
            self.opened.append(conversation_id)
        chat = self.agent.conversation(conversation_id, contact="campaign", timeout_s=OPENING_TIMEOUT_S)
        noting = [plan for plan in self.plans if plan.note is not None]
        chance.shuffle(noting)
        taken = LiveConversation(chat=chat, notes_left=noting, users=1)
        with self._lock:
            self.registered.append(conversation_id)
            self._live.append(taken)
        return taken

    def _is_new_due(self, chance: random.Random) -> bool:
        """Is a conversation to be opened? Not all at once: the processes of each take a second or two to start."""
        if self.is_new_wanted.is_set() or all(live.users for live in self._live):
            return True
        return len(self._live) < self.conversations_wanted and chance.random() < OPENED_EARLY

    def _retire_surplus(self) -> None:
        """End the processes of the oldest conversations beyond the number wanted, where nobody uses them."""
        with self._lock:
            surplus = len(self._live) - self.conversations_wanted
            retired = [live for live in self._live if live.users == 0][: max(0, surplus)]
            self._live = [live for live in self._live if live not in retired]
        for live in retired:
            end_process(self.agent, live.id)


def end_process(agent: Agent, conversation_id: str) -> None:
    """End a conversation's actor for good, without a word to it; its next use starts another."""
    import ray

    place = ConversationPlace(agent=agent.name, conversation_id=ConversationId(conversation_id), contact=None)
    with suppress(ValueError):  # nobody bears the name: it has no process
        ray.kill(ray.get_actor(place.actor_name, namespace=agent.runtime.place.namespace), no_restart=True)
