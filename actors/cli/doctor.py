"""`perdure doctor`: looks for what is wrong, and says how to put it right."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...jobs.outbox import load_consumers
from ...storage.errors import PerdureError, SettingsError, SettingsMismatchError
from ...storage.layout import directory_path, memory_path
from ...storage.settings import Settings
from ...storage.settings_sources import read_settings, settings_as_mapping
from ..attachment import settings_in_force
from ..host_address import HostAddress, client_pids, find_host, holder_pid, is_locked, keep_mark, serving_since
from .directory_checks import check_directory
from .findings import Finding, ok, problem, warning
from .host_commands import changed_settings
from .known import chosen_dir
from .memory_checks import check_embedded_model, check_memory
from .output import Output, amount, moment, one_line

OLDEST_PYTHON = (3, 11)
NEEDED = ("ray", "duckdb", "lancedb", "litellm", "onnxruntime")
LITTLE_MIB = 1024
NO_MIB = 100
"""Free on the disk: with less, the next writes fail."""
STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def examine(data_dir: Path | None, output: Output) -> int:
    """Print what there is to say, the command's exit status: 1 when there is a problem."""
    path = chosen_dir(data_dir)
    counts = {"ok": 0, "warning": 0, "problem": 0}
    found = []
    for finding in _findings(path):
        counts[finding.level] += 1
        found.append(finding)
        if not output.as_json:
            _print(finding, output)
    if output.as_json:
        output.json([asdict(finding) for finding in found])
    else:
        output.note(f"{amount(counts['problem'], 'problem')}, {amount(counts['warning'], 'warning')}")
    return 1 if counts["problem"] else 0


def _print(finding: Finding, output: Output) -> None:
    label = finding.level if finding.level != "ok" else "OK"
    output.line(f"{label:<7}  {finding.subject}: {one_line(finding.text)}", style=STYLES[finding.level])
    if finding.remedy:
        output.line(f"fix: {one_line(finding.remedy)}", indent=9)


def _findings(path: Path) -> Iterator[Finding]:
    yield from _versions()
    yield check_embedded_model()
    yield from _folder(path)
    run_dir = path / "run"
    host = find_host(run_dir)
    yield from _runtime(path, run_dir, host)
    settings = Settings()
    try:
        settings = read_settings(path)
        if host is not None:
            settings = settings_in_force(host, path, None, settings)
    except SettingsMismatchError as error:
        yield warning("settings", error.problem, f"{error.field}: {error.remedy}")
        settings = read_settings(overrides=host.settings if host else None, environ={})
    except SettingsError as error:
        yield problem("settings", f"{error.field}: {error.problem}", error.remedy)
    changed = changed_settings(settings_as_mapping(settings))
    told = ", ".join(f"{name} = {value}" for name, value in changed.items())
    yield ok("settings", told or "all as by default")
    yield from _consumers(settings)
    if directory_path(path).exists():
        yield from check_directory(path, settings, is_served=host is not None)
    if memory_path(path).exists():
        yield from check_memory(path, settings, is_served=host is not None)


def _versions() -> Iterator[Finding]:
    python = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        yield problem("python", python, "use Python 3.11 or newer")
    else:
        yield ok("python", python)
    for name in ("perdure", *NEEDED):
        try:
            yield ok(name, version(name))
        except PackageNotFoundError:
            if name == "perdure":
                yield ok(name, "not installed as a package")
            else:
                yield problem(name, "it is not installed", "install perdure with its dependencies again")


def _folder(path: Path) -> Iterator[Finding]:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not directory_path(path).exists():
        state = "holds nothing yet" if there == path else "is not there yet"
        remedy = "nothing to do for a new one; else name the right one with --data-dir or PERDURE_DATA_DIR"
        yield warning("data directory", f"{path} {state}", remedy)
    if not there.is_dir():
        yield problem("data directory", f"{there} is no directory", "choose another one")
        return
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        yield problem("data directory", f"{there} cannot be read and written", f"chown or chmod {there}")
        return
    if there == path:
        yield _permissions(path)
    yield _room(there)


def _permissions(path: Path) -> Finding:
    status = path.stat()
    mode = stat.filemode(status.st_mode)
    remedy = f"chmod 700 {path}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return warning("data directory", f"{path} can be changed by other users ({mode})", remedy)
    if status.st_mode & stat.S_IXOTH:
        return warning("data directory", f"what {path} holds can be read by every user ({mode})", remedy)
    return ok("data directory", f"{path} ({mode})")


def _room(folder: Path) -> Finding:
    free_mib = shutil.disk_usage(folder).free / 2**20
    text = f"{free_mib / 1024:,.1f} GiB free"
    if free_mib < NO_MIB:
        return problem("disk", text, f"make room on the disk of {folder}")
    if free_mib < LITTLE_MIB:
        return warning("disk", text, f"make room on the disk of {folder}")
    return ok("disk", text)


def _runtime(path: Path, run_dir: Path, host: HostAddress | None) -> Iterator[Finding]:
    is_kept = keep_mark(run_dir).exists()
    if host is not None:
        since, clients = serving_since(run_dir), client_pids(run_dir)
        kept = ", kept" if is_kept else ""
        attached = "some clients" if clients is None else amount(len(clients), "client")
        yield ok("runtime", f"process {host.pid} since {moment(since) if since else '?'}{kept}, {attached}")
    elif is_locked(run_dir / "host.lock"):
        text = f"process {holder_pid(run_dir)} holds {path} and does not serve it"
        yield warning("runtime", text, f"it may be starting or ending; if it stays so, see {run_dir / 'host.log'}")
    elif is_kept:
        remedy = "`perdure up` starts it again, `perdure down` says that it is not wanted"
        yield warning("runtime", "it was to be kept up, and nothing serves the data directory", remedy)
    else:
        yield ok("runtime", "nothing serves the data directory; `connect` starts what it needs")


def _consumers(settings: Settings) -> Iterator[Finding]:
    for entry in settings.outbox.consumers:
        try:
            load_consumers(replace(settings.outbox, consumers=(entry,)))
        except PerdureError as error:
            text, remedy = (error.problem, error.remedy) if isinstance(error, SettingsError) else (str(error), "see it")
            yield problem("outbox.consumers", text, remedy)
        else:
            yield ok("outbox.consumers", f"{entry} can be loaded")
