"""What a conversation's file holds after its process was killed, at any instant and at the worst ones.

duckdb/duckdb#18732: a file whose process was killed after an index was made or dropped could not be opened
again. duckdb/duckdb#22044: nor could one whose write-ahead log held certain updates.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from perdure.storage import database as database_module
from perdure.storage.schema import migrations
from tests.crash import storage_writer
from tests.fixtures.conversation_file import a_message, open_store, stored_tables
from tests.fixtures.random_steps import RandomSteps

ROUNDS = int(os.environ.get("PERDURE_STORAGE_KILLS", "16"))
"""Kills in a row on one file. The suite makes a few; hundreds take some minutes."""
SEED = int(os.environ.get("PERDURE_STORAGE_SEED", "20240229"))
POINTS = (
    "turn.before_open_commit",
    "calls.before_commit",
    "result.before_commit",
    "turn.before_finish_commit",
    "tidy.before_checkpoint",
    "tidy.checkpointed",
)

pytestmark = pytest.mark.crash

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.crash.storage_writer"])


def killed(
    work: Callable[..., None], *arguments: object, after_s: float | None = None, steps: int = 0
) -> tuple[list[int], int | None]:
    """Run `work` in a process and kill it `after_s` seconds after so many steps, or wait for a fault point.

    Returns:
        What it acknowledged, in order, and its exit code.
    """
    receive, send = processes.Pipe(duplex=False)
    process = processes.Process(target=_acknowledging, args=(send, work, *arguments), daemon=True)
    process.start()
    send.close()
    acknowledged: list[int] = []
    try:
        while len(acknowledged) <= steps or after_s is None:
            acknowledged.append(receive.recv())
        time.sleep(after_s)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        while True:
            acknowledged.append(receive.recv())
    except EOFError:
        pass
    process.join(30)
    return acknowledged, process.exitcode


def _acknowledging(send: Connection, work: Callable[..., None], *arguments: object) -> None:
    work(*arguments, send.send)
    time.sleep(60)  # nothing but a kill ends it


class Expected:
    """A file in which the steps of a seed are made without any kill."""

    def __init__(self, path: Path, seed: int) -> None:
        self._store = open_store(path)
        self._calls = iter(RandomSteps(seed))
        self.made = 0

    def tables_after(self, made: int) -> dict[str, list[tuple[object, ...]]]:
        for call in itertools.islice(self._calls, made - self.made):
            getattr(self._store, call.method)(**call.arguments)
        self.made = made
        return stored_tables(self._store)

    def close(self) -> None:
        self._store.close()


def found_tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    store = open_store(path)
    try:
        return stored_tables(store)
    finally:
        store.close()


def test_after_every_kill_all_acknowledged_steps_are_there_and_the_next_one_wholly_or_not_at_all(
    tmp_path: Path,
) -> None:
    path, faults = tmp_path / "c.duckdb", tmp_path / "faults"
    faults.mkdir()
    drawn = random.Random(SEED)
    expected = Expected(tmp_path / "expected.duckdb", SEED)
    start = unacknowledged_but_stored = 0
    points = itertools.cycle(POINTS)
    for number in range(ROUNDS):
        print(f"seed {SEED}, round {number}, step {start}")
        if number % 2:
            point = next(points)
            (faults / point).touch()
            acknowledged, code = killed(storage_writer.write, path, faults, SEED, start)
            assert not (faults / point).exists(), point
        else:
            acknowledged, code = killed(
                storage_writer.write, path, faults, SEED, start,
                after_s=drawn.uniform(0, 0.02), steps=drawn.randrange(12),
            )  # fmt: skip
        assert code == -signal.SIGKILL
        last = acknowledged[-1] if acknowledged else start
        assert acknowledged == list(range(start, last + 1))
        found = found_tables(path) if number % 3 else found_tables_twice_killed(path, faults)
        start = last
        if found != expected.tables_after(last):
            start = last + 1
            unacknowledged_but_stored += 1
            assert found == expected.tables_after(start), f"seed {SEED}, round {number}, step {last}"
    assert start > ROUNDS
    expected.close()


def found_tables_twice_killed(path: Path, faults: Path) -> dict[str, list[tuple[object, ...]]]:
    """The tables after another process that only opened the file has been killed too: the log is read twice."""
    killed(storage_writer.upgrade, path, faults, 0, after_s=0)
    return found_tables(path)


@pytest.mark.parametrize("point", ["migration.before_commit", "migration.committed"])
def test_a_creation_that_is_killed_is_begun_anew(tmp_path: Path, point: str) -> None:
    path, faults = tmp_path / "conversations" / "c.duckdb", tmp_path / "faults"
    faults.mkdir()
    for _ in range(2):
        (faults / point).touch()
        acknowledged, code = killed(storage_writer.write, path, faults, 1, 0)
        assert (acknowledged, code) == ([], -signal.SIGKILL)
        assert not path.exists()
    store = open_store(path)
    store.append_messages(messages=[a_message("m1")])
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["c.duckdb", "c.duckdb.wal"]
    store.close()


@pytest.mark.parametrize("point", ["migration.before_commit", "migration.committed"])
def test_a_migration_that_is_killed_opens_again_and_goes_on(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, faults = tmp_path / "c.duckdb", tmp_path / "faults"
    faults.mkdir()
    store = open_store(path)
    store.append_messages(messages=[a_message(f"m{place}") for place in range(50)])
    before = list(store.page_before(None, 100))
    store.close()
    for count in range(1, len(storage_writer.MORE_MIGRATIONS) + 1):
        (faults / point).touch()
        acknowledged, code = killed(storage_writer.upgrade, path, faults, count)
        assert (acknowledged, code) == ([], -signal.SIGKILL)
        acknowledged, code = killed(storage_writer.upgrade, path, faults, count, after_s=0)
        assert (acknowledged, code) == ([50], -signal.SIGKILL)
    steps = (*migrations("conversation"), *storage_writer.MORE_MIGRATIONS)
    monkeypatch.setattr(database_module, "migrations", lambda family: steps)
    store = open_store(path)
    assert list(store.page_before(None, 100)) == before
    store.append_messages(messages=[a_message("after")])
    store.close()
    assert len(found_tables(path)["chat_messages"]) == 51
