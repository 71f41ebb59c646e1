"""A small campaign of memories: kills lose nothing that was acknowledged, and the campaign notices when they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .test_campaign import processes_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]
CHECKOUT = Path(__file__).parents[2]
COUNTS = ["acked_memories_lost", "duplicates", "stale_found", "not_found", "index_differences", "unopenable"]


def campaign(*arguments: str) -> tuple[int, str]:
    """Exit status and output of a campaign in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.memory", *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=280,
    )
    print(ended.stdout)
    return ended.returncode, ended.stdout


def test_kills_lose_no_acknowledged_memory_and_the_indexes_agree_afterwards() -> None:
    status, output = campaign("--kills", "6", "--seed", "1")
    result = json.loads(output.splitlines()[-1])
    assert list(result) == ["kills", "memories", "fault_points_hit", *COUNTS]
    assert {count: result[count] for count in COUNTS} == dict.fromkeys(COUNTS, 0)
    assert status == 0
    assert result["kills"] >= 6  # guards the test: processes really died
    assert result["memories"] >= 20
    directory = output.splitlines()[0].rpartition(" ")[2]
    assert processes_of(directory) == []
    assert not Path(directory).exists()


def test_a_campaign_against_memories_that_are_acknowledged_too_early_says_so() -> None:
    status, output = campaign("--kills", "5", "--seed", "2", "--sabotage", "early-ack")
    assert status == 1
    assert json.loads(output.splitlines()[-1])["acked_memories_lost"] > 0
