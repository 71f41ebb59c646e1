"""The host: a small process that owns the local Ray of a data directory, so that no script takes it along.

`python -m perdure.actors.host DATA_DIR` reads the settings as JSON from standard input. It ends when it has had
no client for a while, unless the file `run/keep` is there, or when it is told to (SIGTERM).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..storage.data_directory import DataDirectory
from ..storage.errors import FileInUseError
from ..storage.settings import Settings
from ..storage.settings_sources import read_settings, settings_as_mapping
from .host_address import HostAddress, find_host, has_clients, keep_mark, no_clients
from .live_marks import live_folder
from .passivation import passivate_all
from .placement import runtime_namespace
from .ray_environment import prepare_ray, ray_temp_dir

LOOK_S = 0.25
PREDECESSOR_WAIT_S = 20.0
FAREWELL_S = 10.0
"""For live conversations to deliver what they can and tell the directory what they hold."""
SLOW_START = 4
"""Exit status: Ray gave its own start up after half a minute, as it does on a machine that is too busy."""
ANOTHER_HOST = 3
"""Exit status: another host was first."""


def main() -> None:
    """Serve until nobody is left."""
    directory = DataDirectory.prepare(Path(sys.argv[1]))
    settings = read_settings(overrides=json.load(sys.stdin), environ={})
    run_dir = directory.path / "run"
    _become_the_host(directory, run_dir)
    told_to_end = threading.Event()
    _listen(told_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the script at the terminal
    with ray_temp_dir(settings.ray.temp_dir) as temp_dir:
        _serve(directory, temp_dir, settings, told_to_end)


def _become_the_host(directory: DataDirectory, run_dir: Path) -> None:
    """Take the directory; one that is just ending is waited for, one that serves is left to serve."""
    limit = time.monotonic() + PREDECESSOR_WAIT_S
    while True:
        try:
            directory.hold()
            return
        except FileInUseError:
            if find_host(run_dir) is not None or time.monotonic() > limit:
                sys.exit(ANOTHER_HOST)
            time.sleep(LOOK_S)


def _listen(told_to_end: threading.Event) -> None:
    """Note it when somebody tells this process to end."""
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())


def _serve(directory: DataDirectory, temp_dir: Path, settings: Settings, told_to_end: threading.Event) -> None:
    run_dir = directory.path / "run"
    prepare_ray(with_token=True)
    os.environ.setdefault("RAY_metrics_report_interval_ms", str(int(settings.ray.metrics_interval_s * 1000)))
    context = _start_ray(temp_dir, settings)
    import ray

    _listen(told_to_end)  # Ray has put a handler of its own in place of the first
    address = run_dir / "address.json"
    HostAddress(
        pid=os.getpid(),
        address=context.address_info["gcs_address"],
        settings=settings_as_mapping(settings),
    ).write(run_dir)
    alone_s = 0.0
    while not told_to_end.wait(LOOK_S):
        alone_s = 0.0 if has_clients(run_dir) or keep_mark(run_dir).exists() else alone_s + LOOK_S
        if alone_s >= settings.ray.linger_s:
            with no_clients(run_dir) as is_so:  # none may come between the last look and the end
                if is_so:
                    address.unlink(missing_ok=True)
                    break
    address.unlink(missing_ok=True)
    # What they tell the directory as they end saves the next runtime from looking for it in each of their files.
    namespace = runtime_namespace(directory.runtime_id(uuid4().hex))
    passivate_all(live_folder(directory.path), namespace, FAREWELL_S)
    ray.shutdown()


def _start_ray(temp_dir: Path, settings: Settings) -> Any:
    import ray

    try:
        return ray.init(
            address="local",
            include_dashboard=settings.ray.dashboard,
            dashboard_port=settings.ray.dashboard_port,
            _metrics_export_port=settings.ray.metrics_port or None,
            object_store_memory=settings.ray.object_store_mib * 2**20,
            _temp_dir=str(temp_dir),
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # it has no type of its own
        if "timed out during startup" not in str(error):
            raise
        traceback.print_exc()
        sys.exit(SLOW_START)


if __name__ == "__main__":
    main()
