"""This process's attachment to a Ray: the one of a data directory's host, or a cluster's."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..storage.errors import ClusterUnreachableError, HostError, InvalidInputError, SettingsMismatchError
from ..storage.liveness import is_running
from ..storage.settings import Settings
from ..storage.settings_sources import given_settings, read_settings, settings_as_mapping
from .host import ANOTHER_HOST, SLOW_START
from .host_address import ClientLock, HostAddress, find_host
from .ray_environment import prepare_ray

START_WAIT_S = 120.0
LOOK_S = 0.02
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}

logger = logging.getLogger(__name__)


class Attachment:
    """Ray knows one attachment a process; the process's runtimes share it, and the last to leave ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address: str | None = None
        self._users = 0

    def attach(self, address: str, *, with_token: bool) -> None:
        """Attach to the Ray at an address.

        Args:
            with_token: It is a local host's, which the user's token opens.

        Raises:
            InvalidInputError: Streams do not work over the address, or this process is attached to another Ray.
            ClusterUnreachableError: Nothing answers there.
        """
        if address.startswith("ray://"):
            raise InvalidInputError(
                "address",
                f"{address!r} is a Ray Client address, over which streamed replies do not work",
                "run the driver on a node of the cluster with address='auto', or submit it as a Ray job",
            )
        with self._lock:
            self._check_free_for(address)
            prepare_ray(with_token=with_token)
            import ray

            if not ray.is_initialized():
                self._join(address)
            elif not self._users and with_token:
                raise InvalidInputError(
                    "address",
                    "this script has called ray.init() itself, and a process can be connected to one Ray only",
                    "call connect() instead, or pass address='auto' to run in that Ray",
                )
            _log_raylet_messages()
            self._address = address
            self._users += 1

    def check_free_for(self, run_dir: Path) -> None:
        """See that this process may attach to the host of a data directory, before one is started for it.

        Raises:
            InvalidInputError: It is attached to another Ray.
        """
        host = find_host(run_dir)
        with self._lock:
            self._check_free_for(host.address if host is not None else None)

    def _check_free_for(self, address: str | None) -> None:
        if self._users and self._address != address:
            raise InvalidInputError(
                "address",
                f"this process is connected to the Ray at {self._address}, and can be to one only",
                "close that runtime first, or use another process",
            )

    def _join(self, address: str) -> None:
        import ray

        try:
            ray.init(address=address, **QUIET)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterUnreachableError(address, str(error).splitlines()[0]) from error

    def detach(self) -> None:
        """Leave."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                import ray

                ray.shutdown()


ATTACHMENT = Attachment()


class HostShare:
    """A share in the host of a data directory: while a process has one, the host stays."""

    def __init__(self, lock: ClientLock, host: HostAddress) -> None:
        self._lock = lock
        self.host = host

    @classmethod
    def take(cls, data_dir: Path, settings: Settings) -> HostShare:
        """A share in the running host, or in a new one.

        Raises:
            HostError: It does not start; the error names its log.
        """
        run_dir = data_dir / "run"
        lock = ClientLock(run_dir)
        try:
            host = find_host(run_dir) or _start_host(data_dir, run_dir, settings)
        except BaseException:
            lock.release()
            raise
        return cls(lock, host)

    def is_served(self) -> bool:
        """Is the host still there?"""
        return is_running(self.host.pid)

    def release(self) -> None:
        """Give the share back."""
        self._lock.release()


def settings_in_force(host: HostAddress, data_dir: Path, overrides: Any, wanted: Settings) -> Settings:
    """The host's settings, where they agree with what this process was given.

    Raises:
        SettingsMismatchError: One was given another value here.
    """
    in_force = read_settings(overrides=host.settings, environ={})
    theirs, ours = settings_as_mapping(in_force), settings_as_mapping(wanted)
    for key in sorted(given_settings(data_dir, overrides)):
        section, name = key.split(".")
        if theirs[section].get(name) != ours[section].get(name):
            raise SettingsMismatchError(key, repr(theirs[section].get(name)), repr(ours[section].get(name)))
    return in_force


def _start_host(data_dir: Path, run_dir: Path, settings: Settings) -> HostAddress:
    log = run_dir / "host.log"
    limit = time.monotonic() + START_WAIT_S
    while time.monotonic() < limit:
        process = _spawn_host(data_dir, log, settings)
        while time.monotonic() < limit:
            has_ended = process.poll() is not None
            host = find_host(run_dir)
            if host is not None:
                return host
            if has_ended:
                break
            time.sleep(LOOK_S)
        if process.poll() not in (None, ANOTHER_HOST, SLOW_START):
            raise HostError(str(log), f"the host ended with status {process.returncode}: {_last_line(log)}")
    raise HostError(str(log), f"the host did not start within {START_WAIT_S:.0f} s: {_last_line(log)}")


def _spawn_host(data_dir: Path, log: Path, settings: Settings) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "perdure.actors.host", str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C at the terminal is meant for the script
        )
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(settings_as_mapping(settings)).encode())
    return process


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"


def _log_raylet_messages() -> None:
    """Log the raylet's warnings; Ray prints them between the script's own lines, whatever it was told.

    A few conversations that start at once are enough for one.
    """
    from ray._private import worker

    private: Any = worker

    def log(data: dict[str, Any], **_: object) -> None:
        logger.info("%s: %s", data.get("pid"), " ".join(data.get("lines", ())))

    private.print_to_stdstream = log
