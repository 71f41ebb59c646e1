"""What the indexes hold after their process was killed at any instant."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.crash import index_writer
from tests.crash.index_writer import ROUND, SOURCES, open_both, place, vectors
from tests.fixtures.index_rows import EVERYTHING

ROUNDS = int(os.environ.get("PERDURE_STORAGE_KILLS", "6"))
SEED = int(os.environ.get("PERDURE_STORAGE_SEED", "20240229"))

pytestmark = pytest.mark.crash

processes = multiprocessing.get_context("spawn")


def _acknowledging(send: Connection, folder: Path, start: int) -> None:
    index_writer.write(folder, start, send.send)


def killed(folder: Path, start: int, flushes: int, after_s: float) -> int:
    """Kill a writer a moment after so many flushes; the last revision before which everything is flushed."""
    receive, send = processes.Pipe(duplex=False)
    process = processes.Process(target=_acknowledging, args=(send, folder, start), daemon=True)
    process.start()
    send.close()
    flushed = start
    try:
        for _ in range(flushes):
            flushed = receive.recv()
        time.sleep(after_s)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        while True:
            flushed = receive.recv()
    except EOFError:
        pass
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    return flushed


def expected(flushed: int) -> dict[str, int]:
    newest: dict[str, int] = {}
    for revision in range(max(1, flushed - SOURCES), flushed):
        newest[place(revision)] = revision
    return {source: revision for source, revision in newest.items() if revision % 5}


def test_after_every_kill_all_that_was_flushed_is_there_and_the_next_flush_wholly_or_not_at_all(tmp_path):
    drawn = random.Random(SEED)
    start = 1
    for number in range(ROUNDS):
        print(f"seed {SEED}, round {number}, revision {start}")
        flushed = killed(tmp_path, start, flushes=drawn.randrange(1, 6), after_s=drawn.uniform(0, 0.06))
        vector_index, keyword_index = open_both(tmp_path)
        allowed = [expected(flushed), expected(flushed + ROUND)]
        stored = dict(vector_index.sources())
        assert stored in allowed
        assert dict(keyword_index.sources()) in allowed
        rows = sum(index_writer.chunks(revision) for revision in stored.values())
        assert vector_index._table.count() == rows, "chunks of an older revision are there"
        for source, revision in itertools.islice(stored.items(), 5):
            best = vector_index.search(vectors(revision)[-1], EVERYTHING, 1)[0]
            assert (best.source, round(best.score, 4)) == (source, 1.0)
            if dict(keyword_index.sources()).get(source) == revision:
                assert [hit.source for hit in keyword_index.search(f"word{revision}", EVERYTHING, 5)] == [source]
        start = flushed  # an outbox would hand the rest over again
    assert start > ROUNDS * ROUND
