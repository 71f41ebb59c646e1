"""Ways to break Perdure inside its actors, to see that the campaign notices."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def acknowledge_early() -> None:
    """A turn's reply goes out before it is committed: its commit waits until the file is used again, once in vain."""
    from perdure.storage.conversation_store import ConversationStore

    _commit_late(ConversationStore, "finish_turn", dies_once=True)


def acknowledge_memories_early() -> None:
    """A memory is acknowledged before it is committed: its commit waits until the file is written again."""
    from perdure.storage.memory_store import MemoryStore

    _commit_late(MemoryStore, "write_memories")


def _commit_late(store: type, method: str, *, dies_once: bool = False) -> None:
    """What a method of a store commits waits until its thread uses the file again."""
    from perdure.storage.database import Database, Transaction

    begin, query, write = Database.transaction, Database.query, getattr(store, method)
    late: dict[Database, list[tuple[str, Any]]] = {}
    is_late = False

    def commit_late(database: Database) -> None:
        statements = late.pop(database, [])
        if statements:
            if dies_once:
                _die_once(database.path)
            with begin(database) as transaction:
                for sql, parameters in statements:
                    transaction.execute(sql, parameters)

    @contextmanager
    def transaction_or_later(database: Database) -> Iterator[Transaction]:
        commit_late(database)
        if not is_late:
            with begin(database) as transaction:
                yield transaction
            return
        collected = Transaction()
        yield collected
        late[database] = list(collected.statements)

    @functools.wraps(query)
    def query_after_late(database: Database, *arguments: Any) -> Any:
        commit_late(database)
        return query(database, *arguments)

    @functools.wraps(write)
    def write_early(written: Any, **arguments: Any) -> Any:
        nonlocal is_late
        is_late = True
        try:
            return write(written, **arguments)
        finally:
            is_late = False

    Database.transaction = transaction_or_later  # type: ignore[assignment, method-assign]
    Database.query = query_after_late  # type: ignore[assignment, method-assign]
    setattr(store, method, write_early)


def forget_results() -> None:
    """Results of tools that were committed are dropped when a conversation's file is opened again, as it soon is."""
    from perdure.storage import turn_log
    from perdure.storage.conversation_store import ConversationStore

    turn_log.load_results = lambda _: ()  # type: ignore[assignment, attr-defined]
    record = ConversationStore.record_results

    @functools.wraps(record)
    def record_and_die(store: ConversationStore, **arguments: Any) -> None:
        record(store, **arguments)
        _die_once(store.path)

    ConversationStore.record_results = record_and_die  # type: ignore[assignment, method-assign]


def _die_once(path: Path) -> None:
    """Die where a broken Perdure cannot afford it: once for each file. Kills from outside seldom meet the moment."""
    with suppress(FileExistsError):
        path.with_suffix(".died").touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)


def drop_lock() -> None:
    """The lock on an open conversation file is lost: the system takes a process's locks on a file away when the
    process closes any descriptor of it."""
    from perdure.storage.database import Database

    open_database = Database.open.__func__  # type: ignore[attr-defined]

    @functools.wraps(open_database)
    def open_without_lock(cls: type, path: Path, *arguments: Any) -> Database:
        database: Database = open_database(cls, path, *arguments)
        os.close(os.open(path, os.O_RDONLY))
        return database

    Database.open = classmethod(open_without_lock)  # type: ignore[assignment, method-assign]


SABOTAGES: Mapping[str, Callable[[], None]] = {
    "early-ack": acknowledge_early,
    "early-memory-ack": acknowledge_memories_early,
    "drop-lock": drop_lock,
    "forget-result": forget_results,
}
