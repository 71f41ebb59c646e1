"""`perdure up`, `down` and `status`: a local runtime that outlives the scripts that use it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...jobs.outbox import consumer_places
from ...storage.data_directory import DataDirectory
from ...storage.errors import HostError, PerdureError
from ...storage.settings import Settings
from ...storage.settings_sources import read_settings, settings_as_mapping
from ..attachment import HostShare, settings_in_force
from ..host_address import (
    HostAddress,
    client_pids,
    find_host,
    holder_pid,
    is_locked,
    keep_mark,
    no_clients,
    serving_since,
    wait_until_unserved,
)
from ..live_marks import live_conversations, live_folder
from .known import chosen_dir
from .output import Output, amount, moment, one_line

NOT_SERVED = 3
"""Exit status of `perdure status` when nothing serves the data directory."""
SETTLE_S = 60.0
"""A host that is starting or ending has done so by then."""
END_S = 60.0
LOOK_S = 0.05
ASKS = 5


class ClientsAttachedError(PerdureError):
    """A runtime that is to be ended still has clients. Nothing was changed."""

    def __init__(self, data_dir: str, clients: str) -> None:
        super().__init__(data_dir, clients)
        self.data_dir = data_dir
        self.clients = clients

    def __str__(self) -> str:
        return (
            f"the runtime of {self.data_dir} has {self.clients} attached, whose calls would fail; end them first,"
            " or give --force"
        )


def start_host(data_dir: Path | None, output: Output) -> None:
    """Have a host serve the data directory until `down`, and say how to reach it.

    Raises:
        SettingsMismatchError: One serves already, with other settings than given here.
        PerdureError: As `connect`.
    """
    path = chosen_dir(data_dir)
    wanted = read_settings(path)
    consumer_places(wanted.outbox)  # refused here, where somebody sees it
    directory = DataDirectory.prepare(path)
    run_dir = directory.path / "run"
    was_served = find_host(run_dir) is not None
    share = HostShare.take(directory.path, wanted)
    try:
        settings_in_force(share.host, path, None, wanted)
        keep_mark(run_dir).touch()  # before the share goes, with which the host might end
    finally:
        share.release()
    if output.as_json:
        output.json({"data_dir": str(path), "pid": share.host.pid, "was_served": was_served})
        return
    output.line(f"{'kept from now on' if was_served else 'started'}: process {share.host.pid} serves {path}")
    output.line(f"a script reaches it with connect({str(path)!r}), a shell with export PERDURE_DATA_DIR={path}")
    output.note("it has the environment of the shell that started it; `perdure down` ends it")


def end_host(data_dir: Path | None, *, is_forced: bool, output: Output) -> None:
    """End the host of the data directory, and wait until it has ended.

    Raises:
        ClientsAttachedError: It has clients, and it is not forced. It stays, and stays kept.
        HostError: It cannot be told which process it is, or it does not end.
    """
    path = chosen_dir(data_dir)
    run_dir = path / "run"
    host = _settled_host(run_dir)
    if host is None:
        keep_mark(run_dir).unlink(missing_ok=True)
        _say_ended(path, None, [], output)
        return
    if holder_pid(run_dir) != host.pid:
        raise HostError(str(run_dir / "host.lock"), f"it is not held by process {host.pid}, which is left alone")
    clients = client_pids(run_dir)
    for _ in range(ASKS):
        with no_clients(run_dir) as is_so:  # none comes to a host that is about to end
            if is_so or is_forced:
                keep_mark(run_dir).unlink(missing_ok=True)
                os.kill(host.pid, signal.SIGTERM)
                _wait_for_the_address_to_go(run_dir)
                break
        time.sleep(LOOK_S)  # it may have been the host itself that asked at the same moment
    else:
        raise ClientsAttachedError(str(path), _told(client_pids(run_dir)))
    if not wait_until_unserved(run_dir, END_S):
        log = run_dir / "host.log"
        raise HostError(str(log), f"process {host.pid} was told to end and has not within {END_S:.0f} s; see its log")
    _say_ended(path, host.pid, clients, output)


def host_status(data_dir: Path | None, output: Output) -> int:
    """Print whether the data directory is served; the command's exit status."""
    path = chosen_dir(data_dir)
    run_dir = path / "run"
    host = find_host(run_dir)
    facts = _facts(path, run_dir, host)
    if output.as_json:
        output.json(facts)
    elif host is None:
        is_busy = is_locked(run_dir / "host.lock")
        output.line(f"not served: {path}" + (" (a runtime is just starting or ending)" if is_busy else ""))
    else:
        since = serving_since(run_dir)
        kept = "kept until `perdure down`" if facts["kept"] else "ends some seconds after its last client"
        output.line(f"served: {path}")
        output.line(f"process {host.pid}" + (f" since {moment(since)}" if since else "") + f", {kept}")
        output.line(f"{_told(client_pids(run_dir))} attached, {_live(path)} live")
        for name, value in changed_settings(host.settings).items():
            output.line(f"setting {name} = {one_line(str(value))}")
    return 0 if host is not None else NOT_SERVED


def changed_settings(in_force: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that differ from the defaults, by `section.name`."""
    defaults, ours = (json.loads(json.dumps(one)) for one in (settings_as_mapping(Settings()), in_force))
    return {
        f"{section}.{name}": value
        for section, values in ours.items()
        for name, value in values.items()
        if defaults.get(section, {}).get(name) != value
    }


def _facts(path: Path, run_dir: Path, host: HostAddress | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "data_dir": str(path),
        "served": host is not None,
        "kept": keep_mark(run_dir).exists(),
    }
    if host is None:
        return facts
    return facts | {
        "pid": host.pid,
        "since": serving_since(run_dir),
        "clients": client_pids(run_dir),
        "live_conversations": len(live_conversations(live_folder(path))),
        "settings": changed_settings(host.settings),
    }


def _live(path: Path) -> str:
    return amount(len(live_conversations(live_folder(path))), "conversation")


def _told(clients: Sequence[int] | None) -> str:
    if clients is None:
        return "an unknown number of clients"
    numbers = f" (process {', '.join(map(str, clients))})" if clients else ""
    return f"{amount(len(clients), 'client')}{numbers}"


def _settled_host(run_dir: Path) -> HostAddress | None:
    """The host, once one that is starting serves, or one that is ending has ended."""
    limit = time.monotonic() + SETTLE_S
    while (host := find_host(run_dir)) is None and is_locked(run_dir / "host.lock"):
        if time.monotonic() > limit:
            holder = holder_pid(run_dir)
            raise HostError(str(run_dir), f"process {holder} holds it and does not serve; see host.log there")
        time.sleep(LOOK_S)
    return host


def _wait_for_the_address_to_go(run_dir: Path) -> None:
    limit = time.monotonic() + SETTLE_S
    while find_host(run_dir) is not None and time.monotonic() < limit:
        time.sleep(LOOK_S)


def _say_ended(path: Path, pid: int | None, clients: Sequence[int] | None, output: Output) -> None:
    if output.as_json:
        output.json({"data_dir": str(path), "pid": pid, "clients": clients})
    elif pid is None:
        output.line(f"nothing serves {path}")
    else:
        output.line(f"ended: process {pid}, with {_told(clients)} attached")
