"""Where settings come from, which source wins, and what is refused."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from contextlib import suppress
from datetime import time
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.storage.errors import SettingsError
from perdure.storage.settings import Settings
from perdure.storage.settings_limits import LIMITS
from perdure.storage.settings_sources import read_settings


@pytest.fixture(autouse=True)
def empty_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def write_file(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "perdure.toml").write_text(text, encoding="utf-8")
    return folder


def refusal(**sources: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(**{"environ": {}, **sources})
    return str(caught.value)


def test_without_any_source_every_setting_has_its_default() -> None:
    assert read_settings(environ={}) == Settings()


def test_arguments_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    data_dir = write_file(
        tmp_path / "data",
        "[turn]\nresume_after_s = 1\nmax_tool_rounds = 2\npreview_chars = 3\n[memory]\nverify = false",
    )
    environ = {"PERDURE_TURN__RESUME_AFTER_S": "10", "PERDURE_TURN__MAX_TOOL_ROUNDS": "20", "PATH": "/bin"}
    settings = read_settings(data_dir, {"turn": {"resume_after_s": 100}}, environ)
    assert settings.turn.resume_after_s == 100.0
    assert settings.turn.max_tool_rounds == 20
    assert settings.turn.preview_chars == 3
    assert settings.turn.max_process_deaths == Settings().turn.max_process_deaths
    assert settings.memory.verify is False


def test_the_file_of_the_data_directory_comes_before_that_of_the_current_directory(tmp_path: Path) -> None:
    write_file(Path.cwd(), "[turn]\npreview_chars = 11")
    assert read_settings(tmp_path / "data", environ={}).turn.preview_chars == 11
    data_dir = write_file(tmp_path / "data", "[turn]\npreview_chars = 12")
    assert read_settings(data_dir, environ={}).turn.preview_chars == 12


def test_every_setting_can_be_set_from_the_environment() -> None:
    examples: dict[Any, tuple[str, Any]] = {time: ("05:30", time(5, 30)), bool: ("true", True)}
    environ, expected = {}, {}
    for section, record in get_type_hints(Settings).items():
        for name, kind in get_type_hints(record).items():
            key = f"{section}.{name}"
            variable = f"PERDURE_{section.upper()}__{name.upper()}"
            if key in LIMITS:
                number = kind(max(LIMITS[key].least, 0.001 if kind is float else 1))
                environ[variable], expected[key] = str(number), number
            elif kind in examples:
                environ[variable], expected[key] = examples[kind]
    environ |= {"PERDURE_MEMORY__PROVIDER": "cloudflare", "PERDURE_RAY__TEMP_DIR": "/tmp/r"}
    environ |= {"PERDURE_COMPACTION__MODE": "single", "PERDURE_MODELS__API_BASE": "http://localhost:1"}
    expected |= {"memory.provider": "cloudflare", "ray.temp_dir": Path("/tmp/r")}
    environ |= {"PERDURE_EMBEDDING__MODEL": "o/m", "PERDURE_EMBEDDING__API_BASE": "http://localhost:2"}
    expected |= {"embedding.model": "o/m", "embedding.api_base": "http://localhost:2"}
    environ |= {"PERDURE_OUTBOX__CONSUMERS": "a=m:x, b=n:y"}
    expected |= {"outbox.consumers": ("a=m:x", "b=n:y")}
    expected |= {"compaction.mode": "single", "models.api_base": "http://localhost:1"}
    assert as_keys(read_settings(environ=environ)) == expected


def as_keys(settings: Settings) -> dict[str, Any]:
    return {
        f"{section.name}.{field.name}": getattr(getattr(settings, section.name), field.name)
        for section in dataclasses.fields(settings)
        for field in dataclasses.fields(getattr(settings, section.name))
    }


def test_every_number_has_limits_and_its_default_is_within_them() -> None:
    numbers = {key: value for key, value in as_keys(Settings()).items() if type(value) in (int, float)}
    assert set(numbers) == set(LIMITS)
    for key, value in numbers.items():
        assert max(LIMITS[key].least, LIMITS[key].above) <= value <= LIMITS[key].most, key


@pytest.mark.parametrize("key", sorted(LIMITS))
def test_a_number_outside_its_limits_is_refused_with_field_value_and_range(key: str) -> None:
    section, name = key.split(".")
    limits = LIMITS[key]
    below = int(limits.least) - 1 if limits.least > float("-inf") else 0
    for wrong in (below, int(limits.most) + 1):
        message = refusal(overrides={section: {name: wrong}})
        assert message.startswith(f"{key}: {wrong} (int, from the arguments)")
        assert f"{limits.most:,.0f}" in message


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"trun": {"resume_after_s": 1}}, ["trun", "did you mean turn?"]),
        ({"turn": {"resume_after": 1}}, ["turn.resume_after", "did you mean turn.resume_after_s?"]),
        ({"turn": {"budget_tokens": 1}}, ["turn.budget_tokens", "context.budget_tokens?"]),
        ({"turn": 3}, ["turn", "not int", "turn.resume_after_s"]),
        ({"turn": {"max_tool_rounds": True}}, ["True (bool", "whole number from 1"]),
        ({"turn": {"max_tool_rounds": 2.5}}, ["2.5 (float", "whole number from 1"]),
        ({"turn": {"max_tool_rounds": "many"}}, ["'many' (str", "whole number from 1"]),
        ({"turn": {"max_tool_rounds": None}}, ["None (NoneType", "whole number from 1"]),
        ({"turn": {"resume_after_s": float("nan")}}, ["nan (float", "number from 0"]),
        ({"turn": {"resume_after_s": float("inf")}}, ["inf (float", "number from 0"]),
        ({"memory": {"verify": "maybe"}}, ["'maybe'", "true or false"]),
        ({"memory": {"provider": "cloudflair"}}, ["'cloudflair'", "local, cloudflare"]),
        ({"reflection": {"at": 3}}, ["3 (int", "03:00"]),
        ({"reflection": {"at": "25:00"}}, ["'25:00'", "UTC"]),
        ({"reflection": {"at": "03:00+02:00"}}, ["+02:00", "UTC"]),
        ({"models": {"api_base": 7}}, ["7 (int", "a text"]),
        ({"context": {"tail_share": 0.9}}, ["1.2", "at most 1"]),
        ({"context": {"budget_tokens": 499}}, ["499", "from 500"]),
        ({"compaction": {"min_messages": 61}}, ["61", "60"]),
    ],
)
def test_a_wrong_name_or_value_is_refused_and_the_message_says_what_would_do(
    overrides: dict[str, Any], says: list[str]
) -> None:
    message = refusal(overrides=overrides)
    for part in says:
        assert part in message


def test_a_misspelt_environment_variable_is_refused_with_the_closest_name() -> None:
    assert "PERDURE_TURN__RESUME_AFTER_S?" in refusal(environ={"PERDURE_TURN__RESUME_AFTR_S": "1"})
    assert "PERDURE_TURN__RESUME_AFTER_S?" in refusal(environ={"perdure_turn__resume_after_s": "1"})
    assert "PERDURE_DATA_DIR?" in refusal(environ={"PERDURE_DATADIR": "/x"})


def test_the_data_directory_and_the_fault_directory_are_no_settings_and_are_let_through() -> None:
    assert read_settings(environ={"PERDURE_DATA_DIR": "/x", "PERDURE_FAULT_DIR": "/y"}) == Settings()


def test_an_empty_environment_variable_counts_as_not_set() -> None:
    assert read_settings(environ={"PERDURE_RAY__TEMP_DIR": "", "PERDURE_TURN__PREVIEW_CHARS": ""}) == Settings()


def test_a_wrong_value_is_traced_to_its_source(tmp_path: Path) -> None:
    assert "PERDURE_TURN__PREVIEW_CHARS" in refusal(environ={"PERDURE_TURN__PREVIEW_CHARS": "0"})
    data_dir = write_file(tmp_path / "data", "[turn]\npreview_chars = 0")
    assert str(data_dir / "perdure.toml") in refusal(data_dir=data_dir)


@pytest.mark.parametrize("broken", [b"[turn", b"\xff\xfe", b"turn = 1\n[turn]", b"[turn]\nat = 99:99:99"])
def test_a_broken_file_is_refused_by_its_path(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "perdure.toml").write_bytes(broken)
    assert refusal(data_dir=tmp_path).startswith(str(tmp_path / "perdure.toml"))


def test_a_time_of_day_is_read_from_toml_and_text() -> None:
    write_file(Path.cwd(), "[reflection]\nat = 02:15:00\n[consolidation]\nat = '02:45'")
    settings = read_settings(environ={})
    assert (settings.reflection.at, settings.consolidation.at) == (time(2, 15), time(2, 45))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(["resume_after_s", "tail_share", "verify", "temp_dir", "budget_tokens", "y"]) | SCALARS
SECTIONS = st.sampled_from(["turn", "context", "memory", "ray", "x"]) | SCALARS


@given(st.dictionaries(SECTIONS, SCALARS | st.dictionaries(NAMES, SCALARS)))
def test_whatever_is_given_the_answer_is_settings_or_a_settings_error(overrides: dict[Any, Any]) -> None:
    with suppress(SettingsError):
        assert isinstance(read_settings(overrides=overrides, environ={}), Settings)


def test_the_records_of_the_settings_come_without_pydantic() -> None:
    code = "import sys, perdure.storage.settings; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_readme_lists_every_setting_with_its_default_and_those_that_nothing_reads_yet_by_name() -> None:
    text = (
        (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("## Settings")[1].split("\n## ")[0]
    )
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (\S+) \| .+ \|$", text, re.MULTILINE)
    sentence = text.split("These exist with their defaults")[1]
    unread = set(re.findall(r"`([\w.]+)`", sentence))
    every = {
        f"{section.name}.{field.name}": getattr(getattr(Settings(), section.name), field.name)
        for section in dataclasses.fields(Settings)
        for field in dataclasses.fields(section.default_factory)  # type: ignore[arg-type]
    }
    assert len(dict(rows)) == len(rows)
    assert {key for key in every if key not in unread and key.split(".")[0] not in unread} == {key for key, _ in rows}
    assert dict(rows) == {key: shown(every[key]) for key, _ in rows}


def shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:.10g}" if isinstance(default, float) else "none" if default is None else str(default)
