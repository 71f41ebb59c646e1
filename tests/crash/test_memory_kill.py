"""What the file of memories holds after its process was killed, at any instant and around a commit.

duckdb/duckdb#22044: a file whose write-ahead log held certain updates could not be opened again.
"""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage.fault_points import MEMORY_FAULT_POINTS
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import WriteResult
from perdure.storage.replay import WriteCall
from tests.crash import storage_writer
from tests.crash.test_storage_kill import ROUNDS, SEED, killed
from tests.fixtures.memories import EVERYTHING, a_write, file_of, open_memories, version, write
from tests.fixtures.random_memory_steps import RandomMemorySteps, make

pytestmark = pytest.mark.crash

Tables = dict[str, list[tuple[object, ...]]]


def found_tables(path: Path) -> Tables:
    store = open_memories(path)
    try:
        return file_of(store)
    finally:
        store.close()


def tables_after(store: MemoryStore, steps: Iterator[WriteCall], count: int) -> Tables:
    for call in itertools.islice(steps, count):
        make(store, call)
    return file_of(store)


def test_after_every_kill_all_acknowledged_writes_are_there_and_the_next_wholly_or_not_at_all(tmp_path: Path) -> None:
    path, faults = tmp_path / "memory.duckdb", tmp_path / "faults"
    faults.mkdir()
    drawn = random.Random(SEED)
    expected = open_memories(tmp_path / "expected.duckdb")
    steps = iter(RandomMemorySteps(SEED))
    points = itertools.cycle(MEMORY_FAULT_POINTS)
    start = 0
    for number in range(ROUNDS // 2):
        print(f"seed {SEED}, round {number}, step {start}")
        if number % 2:
            point = next(points)
            (faults / point).touch()
            acknowledged, code = killed(storage_writer.write_memories, path, faults, SEED, start)
        else:
            acknowledged, code = killed(
                storage_writer.write_memories, path, faults, SEED, start,
                after_s=drawn.uniform(0, 0.02), steps=drawn.randrange(12),
            )  # fmt: skip
        assert code == -signal.SIGKILL
        last = acknowledged[-1] if acknowledged else start
        found = found_tables(path)
        wanted = tables_after(expected, steps, last - start)
        start = last
        if found != wanted:
            assert found == tables_after(expected, steps, 1), f"seed {SEED}, round {number}, step {last}"
            start = last + 1
    assert start > ROUNDS
    expected.close()


def test_acknowledged_writes_survive_a_kill_and_repeats_are_stored_once(tmp_path: Path) -> None:
    path, faults = tmp_path / "memory.duckdb", tmp_path / "faults"
    faults.mkdir()
    acknowledged, code = killed(storage_writer.write_batches, path, faults, after_s=0, steps=5)
    assert code == -signal.SIGKILL
    store = open_memories(path)
    written = store.readers().scan.counts().active
    assert written >= 32 * acknowledged[-1]
    before = file_of(store)
    for batch in range(acknowledged[-1]):
        results = write(store, *storage_writer.batch_of(batch))
        assert [result.outcome for result in results] == ["created"] * 32
    assert file_of(store) == before
    store.close()


@pytest.mark.parametrize(("point", "stored"), [("memory.before_commit", 0), ("memory.committed", 32)])
def test_a_batch_whose_process_dies_around_the_commit_is_stored_wholly_or_not_and_its_repeat_makes_it_whole(
    tmp_path: Path, point: str, stored: int
) -> None:
    path, faults = tmp_path / "memory.duckdb", tmp_path / "faults"
    faults.mkdir()
    (faults / point).touch()
    acknowledged, code = killed(storage_writer.write_batches, path, faults)
    assert (acknowledged, code) == ([0], -signal.SIGKILL)
    store = open_memories(path)
    assert store.readers().scan.counts().active == stored
    assert len(store.readers().outbox.pending("vector")) == stored
    results = write(store, *storage_writer.batch_of(0))
    assert [result.version_id for result in results] == [version(number) for number in range(1, 33)]
    assert store.readers().memories.count(EVERYTHING) == 32
    assert all(isinstance(result, WriteResult) for result in store.write_memories(writes=[a_write(1, "key 1")]))
    store.close()
