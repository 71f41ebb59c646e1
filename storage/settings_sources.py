"""Reads the settings, once, at start: arguments over environment over `perdure.toml` over defaults.

The records are in `settings.py`, the allowed numbers in `settings_limits.py`; here are the sources. No other
module imports pydantic, and only the process that calls `connect` needs it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from .errors import SettingsError
from .settings import Settings
from .settings_limits import LIMITS

FILE_NAME = "perdure.toml"
PREFIX = "PERDURE_"
OTHER_VARIABLES = frozenset({"PERDURE_DATA_DIR", "PERDURE_FAULT_DIR", "PERDURE_LOCOMO"})
"""Environment variables with our prefix that are no settings: the data directory, the crash tests' faults, the
file with conversations that tests read."""


_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    section: get_type_hints(record) for section, record in get_type_hints(Settings).items()
}
_KEYS = {f"{section}.{name}": kind for section, names in _SECTIONS.items() for name, kind in names.items()}


def read_settings(
    data_dir: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force.

    Args:
        data_dir: Its `perdure.toml` is read if there is one, else that of the current directory, if any.
        overrides: By section: `{"turn": {"resume_after_s": 60}}`. They come before everything else.
        environ: None: the process's own. `PERDURE_TURN__RESUME_AFTER_S=60`; an empty value counts as not set.

    Raises:
        SettingsError: A name is no setting, a value is of the wrong type or out of range, the file is broken.
    """
    layers = _layers(data_dir, overrides, environ)
    try:
        validated = _layered(layers)()
    except ValidationError as error:
        raise _value_error(error, layers) from error
    settings = _as_records(validated)
    _check_together(settings)
    return settings


def given_settings(
    data_dir: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> frozenset[str]:
    """The settings that some source gives, as `section.name`; all others are defaults. Arguments as above."""
    return frozenset(
        f"{section}.{name}"
        for layer in _layers(data_dir, overrides, environ)
        for section, values in layer.values.items()
        for name in values
    )


def settings_as_mapping(settings: Settings) -> dict[str, dict[str, Any]]:
    """Settings in the form of `overrides`, of values that JSON can hold."""
    return {
        section: {name: _plain(value) for name, value in values.items() if value is not None}
        for section, values in dataclasses.asdict(settings).items()
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value.isoformat() if isinstance(value, time) else value


@dataclasses.dataclass(frozen=True, slots=True)
class _Layer:
    """One source's values, by section."""

    origin: str
    values: dict[str, Any]

    def has(self, section: str, name: str) -> bool:
        values = self.values.get(section)
        return isinstance(values, dict) and name in values


def _layers(
    data_dir: Path | None, overrides: Mapping[str, Any] | None, environ: Mapping[str, str] | None
) -> tuple[_Layer, ...]:
    layers = (
        _Layer("the arguments", _nested(overrides or {}, "the arguments")),
        _Layer("the environment", _from_environment(os.environ if environ is None else environ)),
        _from_file(data_dir),
    )
    for layer in layers:
        _check_names(layer)
    return layers


def _nested(values: object, origin: str) -> dict[str, Any]:
    """The mapping as plain dictionaries of sections."""
    if not isinstance(values, Mapping):
        raise SettingsError("settings", f"a {type(values).__name__} was given (from {origin})", "give sections by name")
    for section, content in values.items():
        if section in _SECTIONS and not isinstance(content, Mapping):
            raise SettingsError(
                section,
                f"a section holds settings by name, not {type(content).__name__} (from {origin})",
                f"set one of its settings, such as {section}.{next(iter(_SECTIONS[section]))}",
            )
    return {section: dict(content) if isinstance(content, Mapping) else content for section, content in values.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {_variable(key): key for key in _KEYS}
    values: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.upper().startswith(PREFIX) or variable in OTHER_VARIABLES:
            continue
        if variable not in known:
            raise SettingsError(
                variable,
                "this environment variable has Perdure's prefix and is no setting",
                f"did you mean {_closest(variable.upper(), [*known, *OTHER_VARIABLES])}?",
            )
        if value:
            section, name = known[variable].split(".")
            values.setdefault(section, {})[name] = value
    return values


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace(".", "__")


def _from_file(data_dir: Path | None) -> _Layer:
    folders = [Path.cwd()] if data_dir is None else [Path(data_dir), Path.cwd()]
    path = next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)
    if path is None:
        return _Layer(FILE_NAME, {})
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(str(path), f"the file cannot be read: {error}", "correct the file or remove it") from error
    return _Layer(str(path), _nested(values, str(path)))


def _check_names(layer: _Layer) -> None:
    for section, values in layer.values.items():
        if section not in _SECTIONS:
            raise SettingsError(
                str(section),
                f"there is no such section of settings (from {layer.origin})",
                f"did you mean {_closest(str(section), _SECTIONS)}?",
            )
        for name in values:
            if name not in _SECTIONS[section]:
                key = f"{section}.{name}"
                closest = _closest(str(name), _SECTIONS[section], cutoff=0.6, prefix=f"{section}.")
                raise SettingsError(
                    key,
                    f"there is no such setting (from {layer.origin})",
                    f"did you mean {closest or _closest(key, _KEYS)}?",
                )


def _closest(wrong: str, valid: Iterable[str], cutoff: float = 0.0, prefix: str = "") -> str:
    found = difflib.get_close_matches(wrong, list(valid), n=1, cutoff=cutoff)
    return prefix + found[0] if found else ""


def _number(value: Any) -> Any:
    """Refuses true and false, which Python would take for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")  # noqa: TRY004 - pydantic collects ValueError only
    return value


def _time_of_day(value: Any) -> Any:
    """Refuses a bare number, which would be read as seconds since midnight, and an offset from UTC."""
    parsed = time.fromisoformat(value) if isinstance(value, str) and ":" in value else value
    if not isinstance(parsed, time) or parsed.tzinfo is not None:
        raise ValueError("not a time of day in UTC")
    return parsed


def _texts(value: Any) -> Any:
    """A list of texts; an environment variable has them between commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _annotated(key: str, kind: Any) -> Any:
    """The type of a setting with its limits, as pydantic reads them."""
    if kind == tuple[str, ...]:
        return Annotated[kind, BeforeValidator(_texts)]
    if kind is time:
        return Annotated[time, BeforeValidator(_time_of_day)]
    if key not in LIMITS:
        return kind
    limits = LIMITS[key]
    bounds = Field(
        ge=limits.least if math.isfinite(limits.least) else None,
        gt=limits.above if math.isfinite(limits.above) else None,
        le=limits.most,
        allow_inf_nan=None if kind is int else False,
    )
    return Annotated[kind, bounds, BeforeValidator(_number)]


def _section_model(section: str, record: type) -> type[BaseModel]:
    fields: dict[str, Any] = {
        field.name: (_annotated(f"{section}.{field.name}", _SECTIONS[section][field.name]), field.default)
        for field in dataclasses.fields(record)
    }
    return create_model(record.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


_SECTION_MODELS = {section: _section_model(section, record) for section, record in get_type_hints(Settings).items()}


def _layered(layers: Sequence[_Layer]) -> type[BaseSettings]:
    """The model of every setting, fed from these layers; the first one that has a value wins."""

    class Layered(BaseSettings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(InitSettingsSource(settings_cls, init_kwargs=layer.values) for layer in layers)

    fields: dict[str, Any] = {section: (model, model()) for section, model in _SECTION_MODELS.items()}
    return create_model("EverySetting", __base__=Layered, **fields)


def _as_records(validated: BaseSettings) -> Settings:
    records = get_type_hints(Settings)
    return Settings(
        **{section: records[section](**dict(values)) for section, values in validated}  # the names are the fields'
    )


def _value_error(error: ValidationError, layers: Iterable[_Layer]) -> SettingsError:
    first = error.errors()[0]
    section, name = str(first["loc"][0]), str(first["loc"][1])
    key = f"{section}.{name}"
    origin = next(layer.origin for layer in layers if layer.has(section, name))
    if origin == "the environment":
        origin = f"the environment variable {_variable(key)}"
    given = first["input"]
    shown = repr(given) if len(repr(given)) <= 60 else f"{repr(given)[:60]}…"
    return SettingsError(key, f"{shown} ({type(given).__name__}, from {origin}) cannot be used", _allowed(key))


def _allowed(key: str) -> str:
    """What a setting takes, as a sentence."""
    kind = _KEYS[key]
    if key in LIMITS:
        return f"give a {'whole ' if kind is int else ''}number {LIMITS[key]}"
    if get_origin(kind) is Literal:
        return f"give one of: {', '.join(get_args(kind))}"
    if kind is bool:
        return "give true or false"
    if kind == tuple[str, ...]:
        return "give a list of texts, or one text with commas between them"
    if kind is time:
        return "give a time of day in UTC such as 03:00"
    return "give a path" if Path in get_args(kind) else "give a text"


def _check_together(settings: Settings) -> None:
    context = settings.context
    shares = context.tail_share + context.head_share + context.overlay_share
    if shares > 1 + 1e-9:
        raise SettingsError(
            "context.tail_share",
            f"tail_share, head_share and overlay_share together are {shares:g}",
            "give three numbers whose sum is at most 1",
        )
    compaction = settings.compaction
    if compaction.min_messages > compaction.max_messages:
        raise SettingsError(
            "compaction.min_messages",
            f"it is {compaction.min_messages}, above compaction.max_messages, {compaction.max_messages}",
            "give it a number of at most compaction.max_messages",
        )
