"""A small run of memory's benchmark: it reports every figure, and those that no busy machine changes hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KEYS = {
    "remember_over_fdatasync",
    "remember_ms_p50",
    "remember_excess_ms",
    "remember_per_s_32_clients",
    "recall_ms_p50",
    "recall_ms_p95",
    "recall_with_embedding_ms_p50",
    "vector_ms_p50",
    "keyword_ms_p50",
    "exact_ms_p50",
    "floor_numpy_ms_p50",
    "floor_lancedb_ms_p50",
    "disk_bytes_per_memory",
    "hot_bytes_per_10k",
    "files_after_5000_upserts",
    "search_after_over_before_5000_upserts",
    "rss_mib",
    "recall_8_clients_ms_p50",
}
BYTES_OF_VECTOR = 4 * 384


@pytest.mark.timeout(300)
def test_the_benchmark_of_memory_reports_every_figure_and_what_it_keeps_is_small():
    arguments = ["--n", "150", "--times", "20", "--upserts", "60"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.memory", *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == KEYS
    assert all(value >= 0 for key, value in figures.items() if key != "remember_excess_ms")
    assert figures["remember_over_fdatasync"] > 1  # it is durable
    assert figures["recall_ms_p95"] >= figures["recall_ms_p50"] > figures["floor_numpy_ms_p50"]
    assert 10_000 * BYTES_OF_VECTOR <= figures["hot_bytes_per_10k"] <= 3 * 10_000 * BYTES_OF_VECTOR
    assert BYTES_OF_VECTOR < figures["disk_bytes_per_memory"] < 100_000
    assert figures["files_after_5000_upserts"] <= 400
    assert 100 < figures["rss_mib"] < 3000
