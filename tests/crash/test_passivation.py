"""Small campaigns of passivations: conversations that come and go lose nothing, and the campaign can tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.lean import without_index

from .test_campaign import processes_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]
CHECKOUT = Path(__file__).parents[2]


def campaign(*arguments: str) -> tuple[int, str]:
    """Exit status and output of a campaign in a process of its own, with few conversations."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.passivation", *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=280,
        env=without_index(),
    )
    print(ended.stdout)
    return ended.returncode, ended.stdout


def test_thirty_passivations_under_load_and_kills_lose_nothing_and_never_have_two_processes_hold_a_conversation():
    status, output = campaign("--passivations", "30", "--conversations", "5", "--cap", "2", "--seed", "1")
    result = json.loads(output.splitlines()[-1])
    assert list(result) == ["passivations", "calls", "errors", "second_openers", "acked_lost", "duplicates"]
    assert list(result.values())[2:] == [0, 0, 0, 0]
    assert status == 0
    assert result["passivations"] >= 30
    assert result["calls"] > result["passivations"]
    directory = output.splitlines()[0].rpartition(" ")[2]
    assert processes_of(directory) == []
    assert not Path(directory).exists()
