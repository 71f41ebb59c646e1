"""More conversations than a machine has room for processes: the idle ones make room, and all of them go on.

ray-project/ray#11919: a thousand actors are a thousand processes, which takes the memory of the machine.
ray-project/ray#23315: the driver crashed at about two hundred actors on a small node.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.lean import without_index

pytestmark = [pytest.mark.cases, pytest.mark.timeout(200)]


def test_conversations_beyond_the_cap_take_no_more_processes_and_all_of_them_resume():
    command = [sys.executable, "-m", "tests.crash.passivation", "--open", "12", "--cap", "3"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, env=without_index()
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = json.loads(ended.stdout.splitlines()[-1])
    assert (result["opened"], result["resumed"], result["errors"]) == (12, 12, 0)
    assert 3 <= result["peak_processes"] <= 3 + 4 + 2  # the cap, four that start, and those that are just ending
    assert 0 < result["peak_pss_mib"] < 9 * 150
