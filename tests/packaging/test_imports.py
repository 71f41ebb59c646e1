"""Who may import what, and what the driver's package does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HEAVY = ("ray", "litellm", "lancedb", "pydantic", "typer", "rich", "duckdb")


def _run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_keep_to_the_contracts() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    ended = _run(str(command), "--no-cache", folder=CHECKOUT)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_driver_package_imports_nothing_heavy_by_itself(tmp_path: Path) -> None:
    code = "import sys, perdure.actors; print(*sys.modules, sep='\\n')"
    ended = _run(sys.executable, "-c", code, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    loaded = {name.split(".")[0] for name in ended.stdout.splitlines()}
    assert loaded.isdisjoint(HEAVY), f"import perdure.actors loads {sorted(loaded.intersection(HEAVY))}"


def test_a_script_that_connects_imports_no_database_and_no_model(tmp_path: Path) -> None:
    """To have a handle of an actor, Ray imports its class."""
    actors = "perdure.actors.conversation, perdure.actors.directory, perdure.actors.models"
    code = f"import sys, perdure.actors, {actors}; perdure.actors.connect; print(*sys.modules, sep='\\n')"
    ended = _run(sys.executable, "-c", code, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    loaded = ended.stdout.splitlines()
    assert {name.split(".")[0] for name in loaded}.isdisjoint({"duckdb", "litellm", "lancedb"})
    assert "perdure.jobs.chat_models" not in loaded
