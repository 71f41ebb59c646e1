"""A small run of the conversations' benchmark: it reports every figure, and those that no busy machine changes hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.lean import without_index

KEYS = {
    "activation_ms_p50",
    "activation_after_kill_ms_p50",
    "opened",
    "peak_pss_mib",
    "open_errors",
    "reconnect_ms_p50",
    "cold_start_s",
}


@pytest.mark.timeout(200)
def test_the_benchmark_of_conversations_reports_every_figure_and_opens_all_of_them():
    command = [sys.executable, "-m", "tests.benchmarks.conversations", "--n", "3", "--cap", "2", "--times", "1"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, env=without_index()
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == KEYS
    assert (figures["opened"], figures["open_errors"]) == (3, 0)
    assert 20 < figures["peak_pss_mib"] < 6 * 150
    assert 0 < figures["reconnect_ms_p50"] < 1000 * figures["cold_start_s"]
