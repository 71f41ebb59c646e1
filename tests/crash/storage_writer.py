"""A process that writes to a file until it is killed, and says after each step that it is done."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

from perdure.storage import database
from perdure.storage.memory_write_records import MemoryWrite
from perdure.storage.schema import Migration, migrations
from tests.fixtures.conversation_file import open_store
from tests.fixtures.memories import a_write, open_memories
from tests.fixtures.random_memory_steps import RandomMemorySteps, make
from tests.fixtures.random_steps import RandomSteps

Acknowledge = Callable[[int], None]

MORE_MIGRATIONS = tuple(
    Migration(version=version, name=f"{version:04d}_more.sql", sql=sql)
    for version, sql in enumerate(
        (
            "ALTER TABLE chat_messages ADD COLUMN mood VARCHAR; UPDATE chat_messages SET mood = role",
            "CREATE INDEX by_turn ON chat_messages (turn_id); CREATE UNIQUE INDEX by_id ON chat_messages (seq)",
            "DROP INDEX by_turn; DROP INDEX by_id; ALTER TABLE chat_messages DROP COLUMN mood",
            "CREATE TABLE extra AS SELECT seq, content FROM chat_messages; DROP TABLE extra",
        ),
        start=len(migrations("conversation")) + 1,
    )
)
"""Schema changes of the kinds after which DuckDB files could not be opened again."""


def write(path: Path, fault_dir: Path, seed: int, start: int, acknowledge: Acknowledge) -> None:
    """Make the calls of a seed, from one on; every few calls the log is folded."""
    os.environ["PERDURE_FAULT_DIR"] = str(fault_dir)
    store = open_store(path)
    acknowledge(start)  # the file is open with what the earlier processes wrote
    for number, call in enumerate(itertools.islice(RandomSteps(seed), start, None), start=start + 1):
        getattr(store, call.method)(**call.arguments)
        acknowledge(number)
        if number % 7 == 0:
            store.tidy()


def write_memories(path: Path, fault_dir: Path, seed: int, start: int, acknowledge: Acknowledge) -> None:
    """Make the calls of a seed on a file of memories, from one on; every few calls the log is folded."""
    os.environ["PERDURE_FAULT_DIR"] = str(fault_dir)
    store = open_memories(path)
    acknowledge(start)
    for number, call in enumerate(itertools.islice(RandomMemorySteps(seed), start, None), start=start + 1):
        make(store, call)
        acknowledge(number)
        if number % 7 == 0:
            store.tidy()


def batch_of(number: int) -> list[MemoryWrite]:
    """The writes of a batch."""
    return [a_write(place, f"key {place}") for place in range(number * 32 + 1, number * 32 + 33)]


def write_batches(path: Path, fault_dir: Path, acknowledge: Acknowledge) -> None:
    """Write one batch after the other; acknowledges how many are written."""
    os.environ["PERDURE_FAULT_DIR"] = str(fault_dir)
    store = open_memories(path)
    for number in itertools.count():
        acknowledge(number)
        store.write_memories(writes=batch_of(number))


def upgrade(path: Path, fault_dir: Path, count: int, acknowledge: Acknowledge) -> None:
    """Open a file with some more migrations than there are."""
    os.environ["PERDURE_FAULT_DIR"] = str(fault_dir)
    steps = (*migrations("conversation"), *MORE_MIGRATIONS[:count])
    setattr(database, "migrations", lambda family: steps)  # noqa: B010 - a name that it only imports
    store = open_store(path)
    acknowledge(store.message_count())
