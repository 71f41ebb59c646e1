"""The turns of a conversation and the checkpoints of those that are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .errors import (
    CheckpointUnreadableError,
    FileCorruptError,
    TurnConflictError,
    TurnNotFoundError,
    TurnNotOpenError,
)
from .records import Checkpoint, ToolResult, ToolRound, Turn, TurnId, TurnOwner
from .turn_format import (
    UnreadableStepError,
    dump_attempts,
    dump_calls,
    dump_end,
    dump_results,
    load_attempts,
    load_calls,
    load_end,
    load_opening,
    load_results,
)


def checkpoint_key(turn_id: TurnId) -> str:
    """The key under which a turn's checkpoint stands."""
    return f"turn:{turn_id}"


def opened_turn(turn_id: TurnId, owner: TurnOwner, text_digest: str, user_seq: int, at: datetime) -> Turn:
    """A turn as it opens: its first attempt begins with it, where the runtime owns it."""
    return Turn(
        turn_id=turn_id,
        state="open",
        owner=owner,
        text_digest=text_digest,
        user_seq=user_seq,
        opened_at=at,
        attempted_at=at,
        attempts_begun=1 if owner == "runtime" else 0,
        attempts_ended=0,
    )


@dataclass(slots=True)
class _OpenTurn:
    """An open turn, as its only writer keeps it in memory."""

    turn: Turn
    touched_at: datetime
    rounds: list[ToolRound]
    steps: int = 0
    unreadable: str | None = None
    unreadable_step: int = 0


class TurnReader:
    """Reads turns straight from the file: from the messages that open them, and from their ends."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def turn(self, turn_id: TurnId) -> Turn | None:
        """A turn's record, or None."""
        # An open turn may end between two queries, an ended one never opens again: so the open ones come first.
        opened = (turn for turn in self.open_turns() if turn.turn_id == turn_id)
        return next(opened, None) or self._ended_turn(turn_id)

    def open_turns(self) -> Sequence[Turn]:
        """The turns that have not ended, oldest first."""
        # Attempts come first: those of a turn that ends meanwhile are gone afterwards.
        attempts = self._database.query(
            "SELECT checkpoint_key, body, recorded_at FROM turn_checkpoints WHERE kind = 'attempt' ORDER BY step"
        )
        turns = {checkpoint_key(turn.turn_id): turn for turn in self._as_opened()}
        for key, body, recorded_at in attempts:
            if key in turns:
                with suppress(UnreadableStepError):  # its checkpoint says so
                    turns[key] = _with_attempts(turns[key], body, recorded_at)
        return list(turns.values())

    def _as_opened(self) -> list[Turn]:
        """The turns that have not ended as they were when they were opened, oldest first."""
        rows = self._database.query(
            "SELECT turn_id, seq, turn_opening FROM chat_messages"
            " WHERE turn_opening IS NOT NULL AND turn_id NOT IN (SELECT turn_id FROM turn_ends) ORDER BY seq"
        )
        with self._readable("opening"):
            return [_to_opened(*row) for row in rows]

    def _ended_turn(self, turn_id: TurnId) -> Turn | None:
        rows = self._database.query(
            "SELECT turn_id, seq, turn_opening, turn_ends.turn_end"
            " FROM chat_messages JOIN turn_ends USING (turn_id) WHERE turn_opening IS NOT NULL AND turn_id = ?",
            [turn_id],
        )
        if not rows:
            return None
        *opened, end = rows[0]
        with self._readable("opening"):
            turn = _to_opened(*opened)
        with self._readable("end"):
            return load_end(turn, cast(str, end))

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        try:
            yield
        except UnreadableStepError as error:
            raise FileCorruptError(
                str(self._database.path), f"a turn's stored {what} cannot be read ({error})"
            ) from error


class TurnLog(TurnReader):
    """Writes `turn_checkpoints` and `unanswered_turns`; as their only writer it keeps the open turns in memory.

    What opens a turn is a message, and so is the reply that ends it: `MessageLog` writes them.

    Every `write_…` method works within the caller's transaction and returns what the memory of it becomes;
    `committed` takes that over once the transaction is through.
    """

    def __init__(self, database: Database, conversation_id: str) -> None:
        super().__init__(database)
        self._conversation_id = conversation_id
        self._known: set[str] = {
            cast(str, row[0])
            for row in database.query("SELECT turn_id FROM chat_messages WHERE turn_opening IS NOT NULL")
        }
        self._open: dict[TurnId, _OpenTurn] = {}
        for turn in self._as_opened():
            self.committed(self._load(turn))

    def turn(self, turn_id: TurnId) -> Turn | None:
        """A turn's record, or None."""
        if turn_id in self._open:
            return self._open[turn_id].turn
        return self._ended_turn(turn_id) if turn_id in self._known else None

    def open_turns(self) -> Sequence[Turn]:
        """The turns that have not ended, oldest first."""
        return [entry.turn for entry in self._open.values()]

    def checkpoint(self, turn_id: TurnId) -> Checkpoint:
        """What an open turn has done so far.

        Raises:
            CheckpointUnreadableError: A step is damaged or of another version.
        """
        self._readable_entry(turn_id)
        return self.readable_checkpoint(turn_id)

    def readable_checkpoint(self, turn_id: TurnId) -> Checkpoint:
        """What can be read of an open turn's checkpoint: all, or the steps before a damaged one."""
        entry = self._entry(turn_id)
        return Checkpoint(turn_id=turn_id, rounds=tuple(entry.rounds), touched_at=entry.touched_at)

    def is_readable(self, turn_id: TurnId) -> bool:
        """Can the whole checkpoint of an open turn be read?"""
        return self._entry(turn_id).unreadable is None

    def new(self, turn: Turn) -> _OpenTurn:
        """What the memory of a turn becomes that is about to be opened.

        Raises:
            TurnConflictError: Its id is taken.
        """
        if turn.turn_id in self._known:
            raise TurnConflictError(turn.turn_id)
        return _OpenTurn(turn=turn, touched_at=turn.opened_at, rounds=[])

    def write_attempts(
        self, transaction: Transaction, turn_id: TurnId, begun: int, ended: int, at: datetime
    ) -> _OpenTurn:
        """Set how many attempts have begun and ended; counts as touching the turn."""
        entry = self._entry(turn_id)
        at = max(entry.turn.attempted_at, at)
        self._write_row(transaction, turn_id, entry.steps, "attempt", dump_attempts(begun, ended), at)
        turn = replace(entry.turn, attempts_begun=begun, attempts_ended=ended, attempted_at=at)
        return replace(entry, turn=turn, steps=entry.steps + 1, touched_at=max(entry.touched_at, at))

    def write_step(
        self,
        transaction: Transaction,
        turn_id: TurnId,
        at: datetime,
        *,
        asked: ToolRound | None = None,
        results: tuple[ToolResult, ...] = (),
    ) -> _OpenTurn:
        """Add a round's calls, results that came in, or both, to an open turn's checkpoint.

        Raises:
            CheckpointUnreadableError: An earlier step cannot be read; what follows it would be lost.
        """
        entry = self._readable_entry(turn_id)
        rounds, steps = list(entry.rounds), entry.steps
        if asked is not None:
            body = dump_calls(asked.text, asked.calls, asked.usage)
            self._write_row(transaction, turn_id, steps, "calls", body, at)
            rounds.append(asked)
            steps += 1
        if results:
            self._write_row(transaction, turn_id, steps, "results", dump_results(results), at)
            rounds = with_results(rounds, results)
            steps += 1
        touched_at = max(entry.touched_at, at) if steps > entry.steps else entry.touched_at
        return replace(entry, rounds=rounds, steps=steps, touched_at=touched_at)

    def write_end(self, transaction: Transaction, turn: Turn) -> None:
        """Note how an open turn ends, where no reply of it does, and remove its checkpoint."""
        entry = self._entry(turn.turn_id)
        if turn.reply is None:
            transaction.execute(
                "INSERT INTO unanswered_turns (turn_id, turn_end) VALUES (?, ?)", [turn.turn_id, dump_end(turn)]
            )
        if entry.steps:
            transaction.execute("DELETE FROM turn_checkpoints WHERE checkpoint_key = ?", [checkpoint_key(turn.turn_id)])

    def committed(self, entry: _OpenTurn) -> None:
        """Take over an open turn whose transaction is through."""
        self._known.add(entry.turn.turn_id)
        self._open[entry.turn.turn_id] = entry

    def ended(self, turn_id: TurnId) -> None:
        """Forget an open turn whose end has been committed."""
        self._open.pop(turn_id, None)

    def _entry(self, turn_id: TurnId) -> _OpenTurn:
        entry = self._open.get(turn_id)
        if entry is not None:
            return entry
        turn = self.turn(turn_id)
        if turn is None:
            raise TurnNotFoundError(turn_id)
        raise TurnNotOpenError(turn_id, turn.state)

    def _readable_entry(self, turn_id: TurnId) -> _OpenTurn:
        entry = self._entry(turn_id)
        if entry.unreadable is not None:
            step = entry.unreadable_step
            raise CheckpointUnreadableError(self._conversation_id, turn_id, step, entry.unreadable, step)
        return entry

    def _write_row(
        self, transaction: Transaction, turn_id: TurnId, step: int, kind: str, body: str, at: datetime
    ) -> None:
        transaction.execute(
            "INSERT INTO turn_checkpoints (checkpoint_key, step, kind, body, recorded_at) SELECT ?, ?, ?, ?, ?",
            [checkpoint_key(turn_id), step, kind, body, to_stored(at)],
        )

    def _load(self, turn: Turn) -> _OpenTurn:
        entry = _OpenTurn(turn=turn, touched_at=turn.attempted_at, rounds=[])
        for step, kind, body, recorded_at in self._database.query(
            "SELECT step, kind, body, recorded_at FROM turn_checkpoints WHERE checkpoint_key = ? ORDER BY step",
            [checkpoint_key(turn.turn_id)],
        ):
            entry.steps = cast(int, step) + 1
            at = from_stored(cast(datetime, recorded_at))
            entry.touched_at = max(entry.touched_at, at)
            try:
                if kind == "attempt":  # counted behind a damaged step too
                    entry.turn = _with_attempts(entry.turn, body, recorded_at)
                elif entry.unreadable is not None:
                    continue
                elif kind == "calls":
                    text, calls, usage = load_calls(cast(str, body))
                    entry.rounds.append(ToolRound(text=text, calls=calls, usage=usage, asked_at=at))
                elif kind == "results":
                    entry.rounds = with_results(entry.rounds, load_results(cast(str, body)))
                else:
                    raise UnreadableStepError(f"unknown kind of step {kind!r}")
            except UnreadableStepError as error:
                if entry.unreadable is not None:
                    continue
                entry.unreadable, entry.unreadable_step = str(error), cast(int, step)
        return entry


def with_results(rounds: Sequence[ToolRound], results: Sequence[ToolResult]) -> list[ToolRound]:
    """The rounds with results added to the calls they answer; a call's first result stays."""
    by_call = {result.call_id: result for result in reversed(results)}
    answered = []
    for tool_round in rounds:
        arrived = tuple(by_call[call.call_id] for call in tool_round.unfinished if call.call_id in by_call)
        answered.append(replace(tool_round, results=tool_round.results + arrived) if arrived else tool_round)
    return answered


def _with_attempts(turn: Turn, body: object, recorded_at: object) -> Turn:
    begun, ended = load_attempts(cast(str, body))
    at = from_stored(cast(datetime, recorded_at))
    return replace(turn, attempts_begun=begun, attempts_ended=ended, attempted_at=at)


def _to_opened(turn_id: object, seq: object, opening: object) -> Turn:
    owner, digest, opened_at = load_opening(cast(str, opening))
    return opened_turn(TurnId(cast(str, turn_id)), owner, digest, cast(int, seq), opened_at)
