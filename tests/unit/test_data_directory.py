"""The data directory: made for its owner, refused where it cannot be used, held by one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from perdure.storage.data_directory import DataDirectory
from perdure.storage.errors import DataDirectoryError, FileInUseError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_one_is_its_owners_alone_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    assert mode(DataDirectory.prepare(tmp_path / "somewhere" / "data").path) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    assert mode(DataDirectory.prepare(shared).path) == 0o750


def test_a_place_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="file"):
        DataDirectory.prepare(tmp_path / "file")


def test_it_is_held_by_one_at_a_time_and_its_id_stays(tmp_path: Path) -> None:
    one, other = DataDirectory.prepare(tmp_path), DataDirectory.prepare(tmp_path)
    one.hold()
    with pytest.raises(FileInUseError):
        other.hold()
    one.release()
    other.hold()
    other.release()
    assert one.runtime_id("first") == other.runtime_id("second") == "first"
