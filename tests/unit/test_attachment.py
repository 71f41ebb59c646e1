"""Starting a host: when it is tried again, and when its failure is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.actors import attachment
from perdure.actors.host import ANOTHER_HOST, SLOW_START
from perdure.storage.errors import HostError
from perdure.storage.settings import Settings


def test_a_host_whose_ray_gave_up_or_that_came_second_is_started_again_and_any_other_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings = [SLOW_START, ANOTHER_HOST, 1]

    def spawn(_data_dir: Path, log: Path, _settings: Settings) -> subprocess.Popen[bytes]:
        log.write_text("no room for it\n")
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({endings.pop(0)})"])

    monkeypatch.setattr(attachment, "_spawn_host", spawn)
    (tmp_path / "run").mkdir()
    with pytest.raises(HostError, match="ended with status 1: no room for it"):
        attachment.HostShare.take(tmp_path, Settings())
    assert endings == []
