"""The messages of a conversation: appended, never changed, in the order of `seq`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .errors import FileCorruptError, MessageConflictError
from .records import Message, MessageId, Role, StoredMessage, Turn, TurnId
from .turn_format import UnreadableStepError, dump_end, dump_opening, dump_tool, load_tool

CACHED_MESSAGES = 200
CACHED_CHARS = 2_000_000


class MessageReader:
    """Reads the rows of `chat_messages`, straight from the file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self) -> int:
        """How many messages there are."""
        return cast(int, self._database.query("SELECT count(*) FROM chat_messages")[0][0])

    def head(self, count: int) -> Sequence[StoredMessage]:
        """The first messages, oldest first."""
        return self._select(f"{_SELECT} ORDER BY seq LIMIT ?", [count])

    def page_before(self, seq: int | None, count: int) -> Sequence[StoredMessage]:
        """The newest messages before a place (None: of all), oldest first."""
        if seq is None:
            return self._select(f"{_SELECT} ORDER BY seq DESC LIMIT ?", [count])[::-1]
        return self._select(f"{_SELECT} WHERE seq < ? ORDER BY seq DESC LIMIT ?", [seq, count])[::-1]

    def between(self, first_seq: int, last_seq: int) -> Sequence[StoredMessage]:
        """The messages from one place to another, both included."""
        return self._select(f"{_SELECT} WHERE seq BETWEEN ? AND ? ORDER BY seq", [first_seq, last_seq])

    def of_turn(self, turn_id: TurnId) -> Sequence[StoredMessage]:
        """A turn's messages, oldest first."""
        return self._select(f"{_SELECT} WHERE turn_id = ? ORDER BY seq", [turn_id])

    def _select(self, sql: str, parameters: list[object]) -> list[StoredMessage]:
        rows = self._database.query(sql, parameters)
        try:
            return [to_message(row) for row in rows]
        except UnreadableStepError as error:
            raise FileCorruptError(
                str(self._database.path), f"a message's tool calls cannot be read ({error})"
            ) from error


class MessageLog(MessageReader):
    """Appends to `chat_messages`; the only writer keeps the newest ones and the ids seen in memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._seq_of: dict[str, int] = {
            cast(str, message_id): cast(int, seq)
            for message_id, seq in database.query("SELECT message_id, seq FROM chat_messages")
        }
        self._next_seq = max(self._seq_of.values(), default=-1) + 1
        self._chars_added = 0  # to the cache, since it was last trimmed
        self._newest: list[StoredMessage] = []  # an unbroken run that ends with the last message
        self._head: Sequence[StoredMessage] = ()

    @property
    def next_seq(self) -> int:
        """The place that the next message gets."""
        return self._next_seq

    def unstored(self, messages: Sequence[Message]) -> list[Message]:
        """Those messages that are not stored yet, in order.

        Raises:
            MessageConflictError: An id is taken by a message with other content.
        """
        known: dict[str, Message] = dict(self._stored_under([message.message_id for message in messages]))
        fresh = []
        for message in messages:
            before = known.get(message.message_id)
            if before is None:
                known[message.message_id] = message
                fresh.append(message)
            elif _content(before) != _content(message):
                raise MessageConflictError(message.message_id)
        return fresh

    def insert(self, transaction: Transaction, messages: Sequence[Message]) -> list[StoredMessage]:
        """Add messages within a transaction; `appended` has to follow its commit.

        Raises:
            MessageConflictError: An id is taken.
        """
        stored = self._next(messages)
        _write(transaction, [_row(message) for message in stored])
        return stored

    def insert_opening(self, transaction: Transaction, message: Message, turn: Turn) -> list[StoredMessage]:
        """Add the user message that opens a turn, as `insert` does; it becomes the turn's, if it was not."""
        stored = self._next([replace(message, turn_id=turn.turn_id)])
        _write(transaction, [_row(stored[0], opened=turn)])
        return stored

    def insert_ending(self, transaction: Transaction, messages: Sequence[Message], turn: Turn) -> list[StoredMessage]:
        """Add messages as `insert` does; the last is the reply that ends a turn, and becomes the turn's."""
        *before, reply = messages
        stored = self._next([*before, replace(reply, turn_id=turn.turn_id)])
        _write(transaction, [*map(_row, stored[:-1]), _row(stored[-1], ended=turn)])
        return stored

    def appended(self, stored: Sequence[StoredMessage]) -> None:
        """Take note of messages whose transaction has been committed."""
        for message in stored:
            self._seq_of[message.message_id] = message.seq
            self._next_seq = message.seq + 1
        self._newest.extend(stored)
        self._chars_added += sum(map(_chars, stored))
        self._trim()

    def count(self) -> int:
        """How many messages there are."""
        return len(self._seq_of)

    def head(self, count: int) -> Sequence[StoredMessage]:
        """The first messages, oldest first; kept in memory once they are all there."""
        if len(self._head) < count:
            head = super().head(count)
            if len(head) < count:
                return head
            self._head = head
        return self._head[:count]

    def page_before(self, seq: int | None, count: int) -> Sequence[StoredMessage]:
        """The newest messages before a place (None: of all), oldest first."""
        end = self._next_seq if seq is None else min(seq, self._next_seq)
        start = max(end - count, 0)
        cached_from = self._newest[0].seq if self._newest else self._next_seq
        if start < cached_from:
            page = super().page_before(end, count)
            if end >= cached_from:  # it joins what is cached
                older = [message for message in page if message.seq < cached_from]
                self._newest[:0] = older
                self._chars_added += sum(map(_chars, older))
                self._trim()
            return page
        return self._newest[start - cached_from : max(end - cached_from, 0)]

    def _next(self, messages: Sequence[Message]) -> list[StoredMessage]:
        """Messages in the places that they get.

        Raises:
            MessageConflictError: An id is taken.
        """
        stored = [_placed(message, self._next_seq + offset) for offset, message in enumerate(messages)]
        taken: set[str] = set()
        for message in stored:
            if message.message_id in self._seq_of or message.message_id in taken:
                raise MessageConflictError(message.message_id)
            taken.add(message.message_id)
        return stored

    def _stored_under(self, message_ids: Sequence[str]) -> dict[str, StoredMessage]:
        places = [self._seq_of[message_id] for message_id in message_ids if message_id in self._seq_of]
        if not places:
            return {}
        found = self._select(f"{_SELECT} WHERE seq IN (SELECT unnest(?))", [places])
        return {message.message_id: message for message in found}

    def _trim(self) -> None:
        """Keep the newest within limits; it is let grow to twice as many, so that few appends have to look."""
        if len(self._newest) <= 2 * CACHED_MESSAGES and self._chars_added <= CACHED_CHARS // 2:
            return
        chars, self._chars_added = 0, 0
        for kept, message in enumerate(reversed(self._newest)):
            chars += _chars(message)
            if kept == CACHED_MESSAGES or (chars > CACHED_CHARS and kept):
                del self._newest[: len(self._newest) - kept]
                return


def _chars(message: StoredMessage) -> int:
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls)


_SELECT = "SELECT seq, message_id, turn_id, role, speaker, content, tool, tokens, created_at FROM chat_messages"


def to_message(row: tuple[object, ...]) -> StoredMessage:
    """A row of `chat_messages`, in the order of its columns, as a record."""
    seq, message_id, turn_id, role, speaker, content, tool, tokens, created_at = row
    calls, call_id, tool_name, status = load_tool(cast("str | None", tool))
    return StoredMessage(
        seq=cast(int, seq),
        message_id=MessageId(cast(str, message_id)),
        turn_id=cast("TurnId | None", turn_id),
        role=cast(Role, role),
        speaker=cast("str | None", speaker),
        content=cast(str, content),
        tool_calls=calls,
        call_id=call_id,
        tool_name=tool_name,
        status=status,
        tokens=cast(int, tokens),
        created_at=from_stored(cast(datetime, created_at)),
    )


def _write(transaction: Transaction, rows: Sequence[tuple[object, ...]]) -> None:
    if len(rows) == 1:
        # SELECT instead of VALUES saves a tenth: what DuckDB makes of one row is simpler.
        transaction.execute(
            "INSERT INTO chat_messages (seq, message_id, turn_id, role, speaker, content, tool, tokens, created_at,"
            " turn_opening, turn_end) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?",
            rows[0],
        )
    elif rows:
        # Many rows in one statement: thirty take the time of three that come one by one.
        transaction.execute(
            "INSERT INTO chat_messages (seq, message_id, turn_id, role, speaker, content, tool, tokens, created_at,"
            " turn_opening, turn_end) SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),"
            " unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)",
            [list(column) for column in zip(*rows, strict=True)],
        )


def _row(message: StoredMessage, *, opened: Turn | None = None, ended: Turn | None = None) -> tuple[object, ...]:
    return (
        message.seq,
        message.message_id,
        message.turn_id,
        message.role,
        message.speaker,
        message.content,
        dump_tool(message),
        message.tokens,
        to_stored(message.created_at),
        dump_opening(opened) if opened else None,
        dump_end(ended) if ended else None,
    )


def _content(message: Message) -> tuple[str, str, str | None]:
    return message.role, message.content, message.speaker


def _placed(message: Message, seq: int) -> StoredMessage:
    return StoredMessage(
        seq=seq,
        message_id=message.message_id,
        role=message.role,
        content=message.content,
        speaker=message.speaker,
        tool_calls=message.tool_calls,
        call_id=message.call_id,
        tool_name=message.tool_name,
        status=message.status,
        turn_id=message.turn_id,
        tokens=message.tokens,
        created_at=message.created_at,
    )
