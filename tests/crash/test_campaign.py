"""Small campaigns: kills lose and repeat nothing, and the campaign itself notices when they do."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]
CHECKOUT = Path(__file__).parents[2]
COUNTS = ("acked_lost", "duplicates", "finished_tools_rerun", "unopenable")


@dataclass(frozen=True, slots=True)
class Ended:
    """A campaign that has ended."""

    status: int
    output: str

    @property
    def result(self) -> dict[str, Any]:
        """Its last line."""
        last: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return last

    @property
    def directory(self) -> str:
        """Where it kept its things, as its first line says."""
        return self.output.splitlines()[0].rpartition(" ")[2]


def campaign(*arguments: str) -> Ended:
    """Run a campaign of turns in a process of its own, with few conversations, so that it is over soon."""
    small = ["--no-memories", "--conversations", "3", "--clients", "3", *arguments]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.campaign", *small],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=280,
    )
    print(ended.stdout)
    return Ended(ended.returncode, ended.stdout)


def processes_of(directory: str) -> list[str]:
    """Command lines of the processes that a campaign has left behind."""
    left = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes()
                known = command + (folder / "environ").read_bytes()
            except OSError:  # it has ended meanwhile, or is somebody else's
                continue
            if directory.encode() in known:
                left.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return left


def test_kills_lose_nothing_acknowledged_and_repeat_nothing_finished_and_leave_nothing_running() -> None:
    ended = campaign("--kills", "12", "--seed", "1")
    result = ended.result
    assert {count: result[count] for count in COUNTS} == dict.fromkeys(COUNTS, 0)
    assert ended.status == 0
    assert result["kills"] >= 12  # guards the test: processes really died
    assert result["turns"] >= 12
    assert len(result["fault_points_hit"]) >= 3
    assert ended.directory.startswith("/")
    assert processes_of(ended.directory) == []
    assert not Path(ended.directory).exists()


@pytest.mark.parametrize(
    ("sabotage", "kills", "noticed"),
    [("early-ack", "2", "acked_lost"), ("forget-result", "2", "finished_tools_rerun")],
)
def test_a_campaign_against_a_broken_perdure_says_so(sabotage: str, kills: str, noticed: str) -> None:
    ended = campaign("--kills", kills, "--seed", "2", "--sabotage", sabotage)
    assert ended.status == 1
    assert ended.result[noticed] > 0
    assert processes_of(ended.directory) == []
