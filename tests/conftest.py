"""What holds for every test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from perdure.actors import Runtime

# A property that touches a disk or another process takes as long as the machine is busy: `timeout` in
# pyproject.toml bounds it, not a deadline for each example. The blob repeats a failure found elsewhere.
settings.register_profile("perdure", deadline=None, print_blob=True)
settings.load_profile("perdure")


@pytest.fixture(scope="session", autouse=True)
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The token of the tests' Rays is not the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    os.environ["PERDURE_RAY__LINGER_S"] = "0.5"  # a test waits for its host to end


@pytest.fixture(scope="session")
def fault_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where fault points of the shared runtime's actors are armed."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory, fault_dir: Path) -> Iterator[Runtime]:
    """A runtime on a Ray of its own, for all tests that need one; its Ray directory goes with it."""
    from perdure.actors import connect
    from perdure.actors.host_address import wait_until_unserved

    os.environ["PERDURE_FAULT_DIR"] = str(fault_dir)
    ray_dir = Path(tempfile.mkdtemp(prefix="pd-"))  # short: sockets live below it
    with connect(
        tmp_path_factory.mktemp("data"),
        settings={
            "ray": {"temp_dir": str(ray_dir), "metrics_interval_s": 2.0},
            "turn": {"resume_after_s": 2.0},
            "outbox": {"sweep_s": 3600.0},  # a test that looks at processes wants no others to come and go
        },
    ) as connected:
        yield connected
        run_dir = connected.place.data_dir / "run"
    assert wait_until_unserved(run_dir), "the runtime's host is still there"
    shutil.rmtree(ray_dir, ignore_errors=True)
    del os.environ["PERDURE_FAULT_DIR"]


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"
