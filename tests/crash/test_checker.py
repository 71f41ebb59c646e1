"""The checker finds each kind of broken promise, and none where all were kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from perdure.storage.errors import FileCorruptError
from perdure.storage.layout import conversation_path
from perdure.storage.records import (
    AgentName,
    CallId,
    CallSummary,
    ConversationId,
    MessageId,
    Reply,
    StoredMessage,
    ToolCall,
    Turn,
    TurnId,
)

from .checker import Checker
from .effect_log import Effect
from .journal import ClientNote, ClientTurn, Journal, differences
from .plans import plans
from .stored import StoredConversation, read_conversation
from .witness import Committed, Evidence

AT = datetime(2026, 1, 1, tzinfo=UTC)
NOTING = next(plan for plan in plans(0) if plan.note is not None)
CALL = ToolCall(call_id=CallId("call_0_0"), name="look", arguments="{}")
NOTE_CALL = ToolCall(call_id=CallId("call_0_1"), name="set_context", arguments="{}")


class World:
    """Two turns of one client that went well, to be spoiled by a test."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.turns: dict[str, Turn] = {}
        self.notes = [str(NOTING.note), "by a client"]
        self.effects: list[Effect] = []
        self.results: dict[tuple[str, str], Committed] = {}
        self.journal = Journal(notes=[ClientNote(conversation_id="c", text="by a client", is_acked=True)])
        self.is_there = True
        for number, turn_id in enumerate(("t1", "t2")):
            self._add(turn_id, number * 100)

    def _add(self, turn_id: str, since_ns: int) -> None:
        calls = (CALL, NOTE_CALL) if turn_id == "t1" else (CALL,)
        reply = Reply(
            turn_id=TurnId(turn_id),
            text=f"Let me see.\n\nDone {turn_id}",
            tool_calls=tuple(
                CallSummary(call_id=call.call_id, name=call.name, arguments="{}", status="succeeded") for call in calls
            ),
        )
        turn = ClientTurn(
            turn_id=turn_id,
            conversation_id="c",
            client=0,
            kind="send",
            plan=NOTING if turn_id == "t1" else plans(0)[-1],
            text=f"This is {turn_id}",
            reply=reply,
            acked_at_ns=since_ns + 50,
        )
        self.journal.sent(turn)
        self.turns[turn_id] = Turn(
            turn_id=TurnId(turn_id),
            state="finished",
            owner="runtime",
            text_digest="",
            user_seq=len(self.messages),
            opened_at=AT,
            attempted_at=AT,
            attempts_begun=1,
            attempts_ended=0,
            reply=reply,
        )
        self.row(turn_id, "user", turn.text)
        self.row(turn_id, "assistant", "Let me see.", tool_calls=calls)
        for call in calls:
            self.row(turn_id, "tool", "result", call_id=call.call_id, tool_name=call.name, status="succeeded")
            self.results[turn_id, call.call_id] = Committed(status="succeeded", at_ns=since_ns + 30)
        self.row(turn_id, "assistant", f"Done {turn_id}")
        self.effect(turn_id, "start", since_ns + 10)
        self.effect(turn_id, "end", since_ns + 20)

    def row(self, turn_id: str, role: str, content: str, **given: object) -> None:
        """Add a row."""
        seq = len(self.messages)
        fields: dict[str, object] = {"message_id": MessageId(str(seq)), "role": role, "content": content, **given}
        self.messages.append(StoredMessage(seq=seq, turn_id=TurnId(turn_id), tokens=1, created_at=AT, **fields))  # type: ignore[arg-type]

    def effect(self, turn_id: str, moment: str, at_ns: int, *, is_idempotent: bool = True) -> None:
        """Add a line to the tools' log."""
        self.effects.append(
            Effect(
                moment=moment,  # type: ignore[arg-type]
                turn_id=turn_id,
                call_id=CALL.call_id,
                is_idempotent=is_idempotent,
                at_ns=at_ns,
            )
        )

    def counts(self) -> set[str]:
        """The counts that the checker raises."""
        stored = StoredConversation(messages=self.messages, turns=self.turns, notes=self.notes)
        checker = Checker(
            journal=self.journal,
            conversations={"c": stored} if self.is_there else {},
            effects=self.effects,
            evidence=Evidence(results=self.results),
        )
        return {violation.count for violation in checker.violations()}

    def reply_row(self, turn_id: str) -> StoredMessage:
        """The row of a turn's reply."""
        return next(row for row in self.messages if row.content == f"Done {turn_id}")

    def change_row(self, row: StoredMessage, **changes: object) -> None:
        """Put another row in its place."""
        self.messages[self.messages.index(row)] = replace(row, **changes)  # type: ignore[arg-type]


def swap_turns(world: World) -> None:
    first = [row for row in world.messages if row.turn_id == "t1"]
    world.messages = [row for row in world.messages if row.turn_id == "t2"] + first


def lose_file(world: World) -> None:
    world.is_there = False


def run_harmful_call_twice(world: World) -> None:
    world.effects = [replace(effect, is_idempotent=False) for effect in world.effects]
    world.effect("t1", "start", 12, is_idempotent=False)


def reopen(world: World) -> None:
    world.turns["t1"] = replace(world.turns["t1"], state="open", reply=None)


def change_reply(world: World) -> None:
    reply = replace(world.turns["t1"].reply, text="Something else")  # type: ignore[type-var]
    world.turns["t1"] = replace(world.turns["t1"], reply=reply)


def lose_effect_of_told_call(world: World) -> None:
    world.effects = [effect for effect in world.effects if effect.moment == "start"]


SPOILS: list[tuple[Callable[[World], object], str]] = [
    (lose_file, "acked_lost"),
    (lambda world: world.messages.pop(0), "acked_lost"),
    (lambda world: world.messages.remove(world.reply_row("t1")), "acked_lost"),
    (lambda world: world.change_row(world.messages[0], content="Another text"), "acked_lost"),
    (lambda world: world.turns.pop("t1"), "acked_lost"),
    (reopen, "acked_lost"),
    (change_reply, "acked_lost"),
    (swap_turns, "acked_lost"),
    (lambda world: world.change_row(world.messages[2], status="unknown"), "acked_lost"),
    (lambda world: world.messages.pop(2), "acked_lost"),
    (lose_effect_of_told_call, "acked_lost"),
    (lambda world: world.notes.remove("by a client"), "acked_lost"),
    (lambda world: world.notes.pop(0), "acked_lost"),
    (lambda world: world.row("t1", "user", "This is t1"), "duplicates"),
    (lambda world: world.row("other", "user", "This is t1"), "duplicates"),
    (lambda world: world.row("t1", "assistant", "Done t1"), "duplicates"),
    (lambda world: world.row("t1", "tool", "result", call_id=CALL.call_id, status="succeeded"), "duplicates"),
    (lambda world: world.notes.append(str(NOTING.note)), "duplicates"),
    (lambda world: world.notes.append("by a client"), "duplicates"),
    (lambda world: world.effect("t1", "start", 40), "finished_tools_rerun"),
    (lambda world: world.effect("t1", "start", 60), "finished_tools_rerun"),
    (lambda world: world.effect("of nobody", "start", 60), "finished_tools_rerun"),
    (run_harmful_call_twice, "finished_tools_rerun"),
]


def test_kept_promises_raise_nothing() -> None:
    assert World().counts() == set()


def test_an_unfinished_call_that_may_be_repeated_may_run_again() -> None:
    world = World()
    world.effect("t1", "start", 15)
    assert world.counts() == set()


@pytest.mark.parametrize(("spoil", "count"), SPOILS)
def test_a_broken_promise_is_counted(spoil: Callable[[World], object], count: str) -> None:
    world = World()
    spoil(world)
    assert count in world.counts()


def test_a_note_that_was_not_acknowledged_may_be_there_or_not() -> None:
    world = World()
    world.journal.notes.append(ClientNote(conversation_id="c", text="perhaps"))
    assert world.counts() == set()
    world.notes.append("perhaps")
    assert world.counts() == set()


def test_a_repeat_that_says_something_else_differs() -> None:
    reply = Reply(turn_id=TurnId("t"), text="yes")
    assert differences(reply, replace(reply, resumed=True)) == ""
    assert "no" in differences(reply, replace(reply, text="no"))


def test_a_file_that_is_no_database_cannot_be_read(tmp_path) -> None:
    path = conversation_path(tmp_path, AgentName("campaign"), ConversationId("c"))
    assert read_conversation(tmp_path, AgentName("campaign"), "c", []) is None
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all")
    with pytest.raises(FileCorruptError):
        read_conversation(tmp_path, AgentName("campaign"), "c", [])
