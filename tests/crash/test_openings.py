"""The log of openings tells when a conversation had two processes at once, and counts those that ended in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from .effect_log import append_line
from .openings import passivations, read_holdings, second_openers

IN_ORDER = (
    "opened 1.1 1 100 c",
    "closed 1.1 0 200 c",
    "opened 2.1 2 300 c",
    "killed 2.1 0 400 conversation/a/c",
    "opened 3.1 3 500 c",
    "opened 4.1 1 500 another one",
)


def found(tmp_path: Path, *lines: str, alive_until_ns: dict[str, int] | None = None) -> list[str]:
    log = tmp_path / "openings.log"
    for line in lines:
        append_line(log, line, sync=False)
    return list(second_openers(read_holdings(log), alive_until_ns or {}))


def test_processes_one_after_the_other_are_no_second_openers(tmp_path):
    assert found(tmp_path, *IN_ORDER, alive_until_ns={"3.1": 900, "4.1": 900}) == []
    assert passivations(read_holdings(tmp_path / "openings.log")) == 1


def test_a_process_that_opens_its_file_anew_is_no_second_opener_and_no_passivation(tmp_path):
    assert found(tmp_path, "opened 1.1 1 100 c", "closed 1.1 0 200 c", "opened 1.1 2 300 c") == []
    assert passivations(read_holdings(tmp_path / "openings.log")) == 0


@pytest.mark.parametrize(
    "lines",
    [
        ("opened 1.1 1 100 c", "opened 2.1 2 150 c", "closed 1.1 0 200 c"),  # before it was closed
        ("opened 1.1 1 100 c", "opened 2.1 2 150 c", "killed 1.1 0 200 x"),  # before it was killed
        ("opened 1.1 1 100 c", "opened 2.1 2 850 c"),  # while it is still there
        ("opened 1.1 2 100 c", "closed 1.1 0 200 c", "opened 2.1 2 300 c"),  # with its epoch
        ("opened 1.1 1 100 c", "opened 2.1 2 120 c", "closed 2.1 0 130 c", "closed 1.1 0 200 c"),  # inside it
    ],
)
def test_a_second_opener_is_found(tmp_path, lines):
    assert len(found(tmp_path, *lines, alive_until_ns={"1.1": 900})) == 1
