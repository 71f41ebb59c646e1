"""The driver scripts of `deploy/examples`, each run as a user would, and the one in the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from perdure.actors.host_address import wait_until_unserved
from perdure.storage.settings import Settings

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "deploy" / "examples"
PRINTED: dict[str, list[str]] = {
    "quickstart.py": ["My name is Ana and I love TypeScript", "4 messages on disk"],
    "tools_and_resume.py": [
        "not yet: model 'scripted': the provider is overloaded",
        "I hold seat 14C for you.",
        "resumed: True | tools: [('search_flights', 'succeeded'), ('hold_seat', 'succeeded')]",
        "under the key trip-1/telegram-5512/",
        "the same again: True",
    ],
    "own_loop.py": ["It is booked, for 8 pm.", "history: ['user', 'assistant', 'tool', 'assistant']"],
    "streaming.py": [
        "tool_started look_up\ntool_finished look_up\n",
        "stored as told: True",
        "side by side: {'It is mostly the moon.'}",
        "events: tool_started tool_finished text finished",
    ],
    "remembering.py": [
        'I remember: "Ana lives in Lisbon"',
        "replaced: 1",
        "found now: ['Ana moved to Porto']",
        "known once: ['Ana lives in Lisbon']",
        "Bob's: []",
    ],
    "testing_an_agent.py": ["both tests passed"],
}
MODULES = {"flight_tools.py"}


def test_every_example_is_run():
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(PRINTED) | MODULES


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_does_what_it_says(name, runtime, tmp_path):
    folder = tmp_path if name == "testing_an_agent.py" else runtime.place.data_dir  # the others share the runtime
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(folder)],
        env=_own_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [text for text in PRINTED[name] if text not in ended.stdout] == [], ended.stdout


def _own_environment() -> dict[str, str]:
    """Without what the Ray and the actors of this process are told."""
    told = ("RAY_", "PERDURE_FAULT_DIR")
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def readme() -> str:
    return (CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_the_driver_of_the_readme_runs_and_prints_what_the_readme_says(tmp_path):
    [(driver, said)] = re.findall(
        r"```python\n(from perdure\.actors import connect\n.*?)```\n\n```text\n(.*?)```", readme(), re.DOTALL
    )
    assert len(driver.splitlines()) <= 10
    ended = subprocess.run(
        [sys.executable, "-c", driver],
        env=_own_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert wait_until_unserved(tmp_path / "perdure-data" / "run")
    assert ended.stdout == said, ended.stderr
    assert "My name is Ana" in said
    assert (tmp_path / "perdure-data" / "directory.duckdb").is_file()


def test_other_python_of_the_readme_is_at_least_python():
    for block in re.findall(r"```python\n(.*?)```", readme(), re.DOTALL):
        compile(block, "README.md", "exec")


def settings_in_force() -> dict[str, object]:
    return {
        f"{section.name}.{setting.name}": getattr(getattr(Settings(), section.name), setting.name)
        for section in fields(Settings)
        for setting in fields(getattr(Settings(), section.name))
    }


def test_the_readme_lists_every_setting_that_is_read_with_its_default_and_names_those_that_are_not():
    listed = dict(re.findall(r"^\| `([a-z]+\.\w+)` \| (\S+) \|", readme(), re.MULTILINE))
    [later] = re.findall(r"not yet by anything: (.*?)\n\n", readme(), re.DOTALL)
    unread = re.findall(r"`([a-z_.]+)`", later)
    code = "".join(
        file.read_text(encoding="utf-8")
        for room in ("actors", "jobs", "storage")
        for file in (CHECKOUT / room).rglob("*.py")
        if not file.name.startswith("settings")
    )
    for key, default in settings_in_force().items():
        if key in unread or key.split(".")[0] in unread:
            assert key not in listed
            continue
        shown = f"{default:g}" if isinstance(default, float) else str(default).lower()
        assert (key, listed.pop(key, None)) == (key, shown)
        assert re.search(rf"\.{key.split('.')[1]}\b", code), f"{key} is said to have an effect, and nothing reads it"
    assert listed == {}
