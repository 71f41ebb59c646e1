"""The clients of a campaign: threads that send turns, repeat what failed, and write down what they were told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from perdure.actors import ConversationHandle, DriverTurn
from perdure.actors import ToolResult as DriverToolResult
from perdure.storage.errors import CallTimeoutError, PerdureError, TurnAbandonedError, TurnFailedError
from perdure.storage.records import Reply

from .board import Board, LiveConversation
from .journal import ClientNote, ClientTurn, TurnKind, differences
from .plans import Plan, PlannedCall
from .tools import run_call

Answer = TypeVar("Answer")

CALL_TIMEOUT_S = 30.0
SHORT_TIMEOUT_S = 1.0
"""For some calls, which then run out while the turn goes on."""
GIVE_UP_AFTER_S = 150.0
"""A turn without an answer for so long counts as one that its conversation cannot give."""
NOTED_TURNS = 0.35
REPEATED_TURNS = 0.15
HURRIED_CALLS = 0.05
CLIENT_NOTES = 0.08


class GaveUpError(Exception):
    """A client has stopped waiting for an answer."""


class Client(threading.Thread):
    """Sends turns, one after the other, until the campaign stops; the last one it still sees through."""

    def __init__(self, number: int, seed: int, board: Board, effects: Path) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self._number = number
        self._chance = random.Random(f"{seed}-client-{number}")
        self._board = board
        self._journal = board.journal
        self._effects = effects
        self._sent = 0

    def run(self) -> None:
        """Send turns."""
        while not self._board.stop.is_set():
            try:
                with self._board.conversation(self._chance) as conversation:
                    turn = self._next_turn(conversation)
                    with self._board.in_flight(turn, conversation):
                        self._see_through(turn, conversation)
                    self._note_sometimes(conversation)
            except PerdureError as error:  # a conversation could not be opened; the next try takes another
                self._get_over(error)

    def _next_turn(self, conversation: LiveConversation) -> ClientTurn:
        self._sent += 1
        turn_id = f"client-{self._number}-turn-{self._sent}"
        plan = self._plan(conversation)
        kinds: Sequence[TurnKind] = ("send", "send", "stream", "stream", "driver")
        turn = ClientTurn(
            turn_id=turn_id,
            conversation_id=conversation.id,
            client=self._number,
            kind=self._chance.choice(kinds),
            plan=plan,
            text=f"{plan.key} This is {turn_id}.",
        )
        if turn.kind == "driver" and plan.note is not None:
            turn.kind = "send"  # the notes are written by a tool that only the runtime's loop has
        self._journal.sent(turn)
        return turn

    def _plan(self, conversation: LiveConversation) -> Plan:
        if conversation.notes_left and self._chance.random() < NOTED_TURNS:
            try:
                return conversation.notes_left.pop()
            except IndexError:  # another client has just taken the last one
                pass
        return self._chance.choice([plan for plan in self._board.plans if plan.note is None])

    def _see_through(self, turn: ClientTurn, conversation: LiveConversation) -> None:
        chat = conversation.chat
        attempts: Mapping[TurnKind, Callable[[], Reply]] = {
            "send": lambda: chat.send(turn.text, turn_id=turn.turn_id, timeout_s=self._timeout_s()),
            "stream": lambda: self._stream(chat, turn),
            "driver": DriverLoop(chat, turn, self._effects).attempt,
        }
        try:
            reply = self._until_answered(turn.turn_id, attempts[turn.kind])
        except (TurnFailedError, TurnAbandonedError) as error:
            turn.failure = str(error)
            return
        except GaveUpError as error:
            self._journal.violated("unopenable", f"{turn.turn_id} in {turn.conversation_id}: {error}")
            return
        self._journal.acknowledged(turn, reply)
        if self._chance.random() < REPEATED_TURNS:
            self._repeat(turn, reply, chat)

    def _repeat(self, turn: ClientTurn, reply: Reply, chat: ConversationHandle) -> None:
        try:
            again = self._until_answered(turn.turn_id, lambda: repeat(chat, turn, CALL_TIMEOUT_S))
        except (PerdureError, GaveUpError) as error:
            self._journal.violated("acked_lost", f"{turn.turn_id}, acknowledged and repeated: {error}")
            return
        self._journal.repeated()
        if difference := differences(reply, again):
            self._journal.violated("acked_lost", f"{turn.turn_id} repeated at once: {difference}")

    def _stream(self, chat: ConversationHandle, turn: ClientTurn) -> Reply:
        told = ""
        for event in chat.stream(turn.text, turn_id=turn.turn_id, timeout_s=self._timeout_s()):
            if event.type == "text":
                told += event.text
            elif event.type == "restarted":
                told = ""
            elif event.type == "finished":
                if told != event.reply.text:
                    self._journal.violated(
                        "acked_lost", f"{turn.turn_id} streamed {told!r}, its reply is {event.reply.text!r}"
                    )
                return event.reply
        raise GaveUpError("its stream ended without a reply")

    def _note_sometimes(self, conversation: LiveConversation) -> None:
        if self._chance.random() >= CLIENT_NOTES:
            return
        note = ClientNote(
            conversation_id=conversation.id, text=f"noted by client-{self._number} after {self._sent} turns"
        )
        self._journal.noted(note)
        try:
            conversation.chat.set_context(note.text, "append", timeout_s=CALL_TIMEOUT_S)
        except CallTimeoutError as error:
            self._journal.met(error)  # another call would be another line, so this one stays open
        else:
            note.is_acked = True

    def _until_answered(self, turn_id: str, attempt: Callable[[], Answer]) -> Answer:
        limit = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            try:
                return attempt()
            except (TurnFailedError, TurnAbandonedError):
                raise
            except PerdureError as error:
                self._get_over(error, turn_id)
                if time.monotonic() > limit:
                    raise GaveUpError(f"no answer within {GIVE_UP_AFTER_S:.0f} s; at last {error}") from error

    def _get_over(self, error: PerdureError, where: str = "a conversation") -> None:
        self._journal.met(error)
        if not error.retryable:
            self._journal.violated("unopenable", f"{where}: {type(error).__name__}: {error}")
        time.sleep(self._chance.uniform(0.05, 0.3))

    def _timeout_s(self) -> float:
        return SHORT_TIMEOUT_S if self._chance.random() < HURRIED_CALLS else CALL_TIMEOUT_S


class DriverLoop:
    """A driver with a model loop of its own. Any of its calls may fail; then it begins the turn again."""

    def __init__(self, chat: ConversationHandle, turn: ClientTurn, effects: Path) -> None:
        self._chat = chat
        self._turn = turn
        self._effects = effects
        self._results: dict[str, str] = {}
        """Of the calls that it has run, which it does not run again."""
        self._acknowledged: set[str] = set()

    def attempt(self) -> Reply:
        """Go on from what is stored, to the end."""
        driver_turn = self._chat.begin_turn(self._turn.text, turn_id=self._turn.turn_id, timeout_s=CALL_TIMEOUT_S)
        if driver_turn.reply is not None:
            return driver_turn.reply
        shown = {message.get("tool_call_id") for message in driver_turn.messages}
        for number, calls in enumerate(self._turn.plan.rounds):
            by_id = {f"{self._turn.turn_id}.{number}.{place}": call for place, call in enumerate(calls)}
            lost = self._acknowledged.intersection(by_id) - shown
            if lost:
                raise GaveUpError(f"calls {sorted(lost)} were acknowledged and are not shown to the driver")
            if not shown.issuperset(by_id):
                self._record(driver_turn, by_id)
        return driver_turn.finish(f"Done {self._turn.turn_id}.", timeout_s=CALL_TIMEOUT_S)

    def _record(self, driver_turn: DriverTurn, by_id: Mapping[str, PlannedCall]) -> None:
        for call_id, call in by_id.items():
            if call_id not in self._results:
                self._results[call_id] = run_call(
                    self._effects, self._turn.turn_id, call_id, call.pause_s, is_idempotent=call.is_idempotent
                )
        driver_turn.record_tool_round(
            [
                DriverToolResult(name=call.tool, result=self._results[call_id], call_id=call_id)
                for call_id, call in by_id.items()
            ],
            text="Let me see.",
            timeout_s=CALL_TIMEOUT_S,
        )
        self._acknowledged.update(by_id)


def repeat(chat: ConversationHandle, turn: ClientTurn, timeout_s: float) -> Reply:
    """Send a turn that has ended once more; its stored reply."""
    if turn.kind != "driver":
        return chat.send(turn.text, turn_id=turn.turn_id, timeout_s=timeout_s)
    again = chat.begin_turn(turn.text, turn_id=turn.turn_id, timeout_s=timeout_s)
    if again.reply is None:
        raise GaveUpError(f"{turn.turn_id} is open again")
    return again.reply
