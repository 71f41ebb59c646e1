"""A small run of the turn's benchmark: it reports every figure, and those that no busy machine changes hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KEYS = {
    "fdatasync_ms_p50",
    "checkpoint_ms_p50",
    "checkpoint_excess_ms",
    "turn_overhead_ms_p50",
    "turn_overhead_excess_ms",
    "turn_with_recall_ms_p50",
    "turn_without_memory_ms_p50",
    "tool_round_ms_p50",
    "live_pss_mib",
    "dormant_bytes_20_messages",
    "turn_disk_bytes_after",
    "checkpoint_churn_bytes",
}


def test_the_benchmark_of_the_turn_reports_every_figure_and_files_stay_small():
    command = [sys.executable, "-m", "tests.benchmarks.turn", "--n", "5", "--churn", "10", "--live", "3"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == KEYS
    assert 20_000 < figures["dormant_bytes_20_messages"] <= 96 * 1024
    assert figures["turn_disk_bytes_after"] <= 64 * 1024
    assert figures["checkpoint_churn_bytes"] <= 64 * 1024
    assert 10 < figures["live_pss_mib"] < 150  # fewer processes share less than twenty do
    assert figures["turn_overhead_ms_p50"] > figures["fdatasync_ms_p50"] > 0
