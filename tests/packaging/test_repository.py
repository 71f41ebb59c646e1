"""The repository itself: what lies at its top, and what its files and its lock may say."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
FOLDERS = {"actors", "storage", "jobs", "tests", "deploy"}
FILES = {"pyproject.toml", "README.md", "Makefile", "LICENSE", "CHANGELOG.md", "requirements.lock"}
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:root|work|home/(?!ray\b)\w+|Users/\w+)/")
"""`/home/ray` is the home in Ray's container images."""
REGISTRY_HOST = re.compile(r"\b(?:pypi|pythonhosted|npmjs|debian|conda|anaconda)\.(?:org|io|com)\b")


@dataclass(slots=True, kw_only=True)
class LockedRequirement:
    """One pinned version of the lock."""

    requirement: Requirement
    hashes: int = 0
    required_by: list[str] = field(default_factory=list)


def _locked() -> list[LockedRequirement]:
    found: list[LockedRequirement] = []
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines():
        text = line.strip().removesuffix("\\").strip()
        if not line.startswith((" ", "#")) and text:
            found.append(LockedRequirement(requirement=Requirement(text)))
        elif text.startswith("--hash=sha256:"):
            found[-1].hashes += 1
        elif found and text.startswith("#"):
            found[-1].required_by.append(text.lstrip("# ").removeprefix("via").strip())
    return found


def _declared() -> list[Requirement]:
    """The dependencies at run time and those of development."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["dev"]]


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split("\0") if name and (CHECKOUT / name).is_file()]


def test_the_top_level_holds_only_what_a_user_expects(tracked: list[Path]) -> None:
    folders = {file.parts[0] for file in tracked if len(file.parts) > 1}
    files = {file.name for file in tracked if len(file.parts) == 1}
    assert {name for name in folders - FOLDERS if not name.startswith(".")} == set()
    assert {name for name in files - FILES if not name.startswith(".")} == set()


def test_no_file_names_a_path_of_some_machine_or_the_host_of_a_registry(tracked: list[Path]) -> None:
    found = []
    for file in tracked:
        try:
            lines = (CHECKOUT / file).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # not a text
        for number, line in enumerate(lines, start=1):
            if MACHINE_PATH.search(line) or REGISTRY_HOST.search(line):
                found.append(f"{file}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("cd |root|project", True),
        ("open('|work|data.txt')", True),
        ("|home|someone|x", True),
        ("|home|ray|data", False),
        ("tests|work|data", False),
        ("$HOME|work|data", False),
    ],
)
def test_a_path_of_some_machine_is_told_from_others(line: str, is_found: bool) -> None:
    assert bool(MACHINE_PATH.search(line.replace("|", "/"))) == is_found  # so that this file names none


def test_every_locked_requirement_is_one_version_with_hashes() -> None:
    locked = _locked()
    assert locked
    assert [str(entry.requirement) for entry in locked if entry.hashes == 0] == []
    pins = [[specifier.operator for specifier in entry.requirement.specifier] for entry in locked]
    assert [pin for pin in pins if pin != ["=="]] == []


def test_the_lock_leaves_the_index_to_whoever_installs() -> None:
    lines = (CHECKOUT / "requirements.lock").read_text().splitlines()
    options = ("--index", "--extra-index", "--find-links", "--trusted", "--no-index", "-i ", "-f ")
    found = [line for line in lines if line.strip().startswith(options)]
    assert found + [line for line in lines if "://" in line or " @ " in line] == []


def test_the_lock_answers_the_dependencies_that_pyproject_declares() -> None:
    asked_for = {
        canonicalize_name(entry.requirement.name)
        for entry in _locked()
        if any(name.startswith("perdure ") for name in entry.required_by)
    }
    assert asked_for == {canonicalize_name(requirement.name) for requirement in _declared()}, "run make lock"


def test_every_locked_version_is_one_that_pyproject_allows() -> None:
    versions = {
        canonicalize_name(entry.requirement.name): next(iter(entry.requirement.specifier)).version
        for entry in _locked()
    }
    refused = [
        f"{requirement}: locked is {version}"
        for requirement in _declared()
        if (version := versions.get(canonicalize_name(requirement.name))) and version not in requirement.specifier
    ]
    assert refused == [], "run make lock"
