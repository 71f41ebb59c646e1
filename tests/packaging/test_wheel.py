"""What a user gets: the wheel, installed where the checkout cannot be seen."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("actors", "jobs", "storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An environment that holds the wheel, and reads the dependencies of the running one."""

    wheel: Path
    root: Path
    """Outside of the checkout, like the folder that `run` works in."""

    @property
    def scripts(self) -> Path:
        return self.root / "environment" / ("Scripts" if os.name == "nt" else "bin")

    def run(self, program: str, *arguments: str) -> str:
        """What the program prints; a failing one fails the test with its whole output."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        (self.root / "elsewhere").mkdir(exist_ok=True)
        return _output([str(self.scripts / program), *arguments], self.root / "elsewhere", environment)

    def python(self, code: str) -> list[str]:
        """The lines that the code prints."""
        return self.run("python", "-c", code).splitlines()


def _output(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def _files_to_ship() -> set[str]:
    """Every file of the three folders, by the name under which a wheel has to hold it."""
    return {
        f"perdure/{file.relative_to(CHECKOUT).as_posix()}"
        for folder in FOLDERS
        for file in (CHECKOUT / folder).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a `build/` left in the checkout could otherwise lend it files that are gone."""
    source = tmp_path_factory.mktemp("source")
    for file in CHECKOUT.iterdir():
        if file.is_file():
            shutil.copy(file, source)
    for folder in FOLDERS:
        shutil.copytree(CHECKOUT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    _output([sys.executable, "-m", "pip", *build, "."], source)
    wheels = list(out.glob("*.whl"))
    assert [file.name.split("-")[0] for file in wheels] == ["perdure"]
    return wheels[0]


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    root = tmp_path_factory.mktemp("installation")
    venv.create(root / "environment", with_pip=False, symlinks=os.name != "nt")
    installed = Installation(wheel=wheel, root=root)
    target = ["--python", str(installed.scripts / "python")]
    install = ["install", "--quiet", "--no-index", "--no-deps", "--no-warn-script-location", str(wheel)]
    _output([sys.executable, "-m", "pip", *target, *install], root)
    # The .pth files of a folder that a .pth file names are not read, so the dependencies come along and the
    # editable installation of the checkout, a .pth file itself, does not.
    site = Path(installed.python("import sysconfig; print(sysconfig.get_path('purelib'))")[0])
    folders = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")
    return installed


def test_the_wheel_holds_every_file_of_the_three_folders_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    shipped = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    missing, unexpected = _files_to_ship() - shipped, shipped - _files_to_ship()
    assert not missing, f"package data in pyproject.toml leaves out {sorted(missing)}"
    assert not unexpected, f"the wheel ships {sorted(unexpected)}"


def test_the_wheel_names_its_license_its_python_and_its_dependencies(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata_name = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(metadata_name))
    assert metadata["Name"] == "perdure"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"]
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    assert {"duckdb", "litellm", "ray"} <= {found.name for found in requirements if found.marker is None}
    assert metadata.get_payload(), "the wheel shows no description: README.md is missing or empty"


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_package_is_imported_from_the_installation(installation: Installation, folder: str) -> None:
    [file] = installation.python(f"import perdure.{folder} as package; print(package.__file__)")
    assert Path(file).is_relative_to(installation.root), f"perdure.{folder} came from {file}"


def test_a_user_may_have_packages_called_like_the_folders(installation: Installation) -> None:
    """It also shows that the checkout is out of sight: there, these names can be imported."""
    code = f"from importlib.util import find_spec; print([name for name in {FOLDERS} if find_spec(name)])"
    assert installation.python(code) == ["[]"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_type_checkers_are_told_that_each_package_has_types(installation: Installation, folder: str) -> None:
    found = f"files('perdure.{folder}').joinpath('py.typed').is_file()"
    assert installation.python(f"from importlib.resources import files; print({found})") == ["True"]


def test_the_migrations_are_found_as_resources(installation: Installation) -> None:
    found = installation.python(
        "from importlib import resources\n"
        "def walk(place, name=''):\n"
        "    for entry in place.iterdir():\n"
        "        if entry.is_dir():\n"
        "            walk(entry, f'{name}{entry.name}/')\n"
        "        elif entry.name.endswith('.sql'):\n"
        "            print(name + entry.name, len(entry.read_text()) > 0)\n"
        "walk(resources.files('perdure.storage') / 'migrations')\n"
    )
    migrations = CHECKOUT / "storage" / "migrations"
    expected = [f"{file.relative_to(migrations).as_posix()} True" for file in migrations.rglob("*.sql")]
    assert expected, "storage/migrations holds no .sql file"
    assert sorted(found) == sorted(expected)


def test_the_command_perdure_prints_its_help(installation: Installation) -> None:
    assert "usage" in installation.run("perdure", "--help").lower()
