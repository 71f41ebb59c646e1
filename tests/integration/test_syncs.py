"""Durability costs one `fdatasync` a step that is acknowledged, and no more: counted from outside."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BODY = """
    import sys
    from pathlib import Path
    from perdure.actors.testing import CallTools, InProcessConversation, Rule, Say, Script
    from tests.benchmarks.tools import instant

    calls = CallTools((("instant", {"place": 1}), ("instant", {"place": 2})))
    script = Script((Rule("tools", (calls, Say("ok"))), Rule(None, (Say("ok"),))))
    chat = InProcessConversation(Path(sys.argv[1]) / "chat.duckdb", model=script, tools=[instant])
    for number in range(int(sys.argv[2])):
        chat.send(f"{sys.argv[3]} {number}", turn_id=f"t{number}")
    for number in range(int(sys.argv[2])):
        chat.send(f"{sys.argv[3]} {number}", turn_id=f"t{number}")
"""


def syncs(folder: Path, turns: int, text: str) -> int:
    folder.mkdir()
    trace = folder / "trace"
    command = [sys.executable, "-c", textwrap.dedent(BODY), str(folder), str(turns), text]
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync", "-o", str(trace), *command],
        check=True,
        timeout=250,
        cwd=Path(__file__).parents[2],
    )
    return len(re.findall(r"\b(?:fdatasync|fsync)\(", trace.read_text()))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the system calls")
@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("plain", 2),  # the message, the reply
        ("tools", 5),  # the message, the calls of the round, each of two results, the reply
    ],
)
def test_each_acknowledged_step_costs_one_sync_and_a_repeat_none(tmp_path, text, steps):
    few, many = syncs(tmp_path / "few", 3, text), syncs(tmp_path / "many", 13, text)
    assert many - few == 10 * steps
