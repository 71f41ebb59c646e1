"""What the tests of the command line share."""

from __future__ import annotations

import sys

import pytest

from perdure.actors.cli import main


@pytest.fixture
def perdure(runtime, monkeypatch, capsys):
    """Runs a command line in this process, where Ray is up already: exit status, standard output and error."""
    return command_line(monkeypatch, capsys)


@pytest.fixture
def perdure_alone(monkeypatch, capsys):
    """As `perdure`, for commands that need no runtime."""
    return command_line(monkeypatch, capsys)


def command_line(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["perdure", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as ended:
            return (ended.code or 0, *capsys.readouterr())
        return (0, *capsys.readouterr())

    return run
