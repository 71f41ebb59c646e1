"""The Ray that this process is attached to: one at a time, shared by its runtimes, ended by the last."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

from ..storage.errors import ClusterUnreachableError, InvalidInputError
from ..storage.liveness import is_running
from ..storage.settings import RaySettings

logger = logging.getLogger(__name__)
TEMP_PREFIX = "perdure-ray-"
QUIET = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}


class LocalRay:
    """This process's attachment to Ray."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._temp_dir: Path | None = None
        self._address: str | None = None

    def attach(self, address: str | None, settings: RaySettings) -> None:
        """Attach to the cluster at an address, or to a Ray on this machine, which is started if need be.

        Raises:
            InvalidInputError: The address is one that streams do not work over.
            ClusterUnreachableError: Nothing answers there.
        """
        if address is not None and address.startswith("ray://"):
            raise InvalidInputError(
                "address",
                f"{address!r} is a Ray Client address, over which streamed replies do not work",
                "run the driver on a node of the cluster with address='auto', or submit it as a Ray job",
            )
        with self._lock:
            _prepare_environment(address)
            import ray

            if self._users and address != self._address:
                raise InvalidInputError(
                    "address",
                    f"this process is connected to {self._address or 'a Ray of its own'}, and can be to one only",
                    "close that runtime first, or use another process",
                )
            self._address = address
            if ray.is_initialized():
                pass
            elif address is None:
                self._start(settings)
            else:
                _join(address)
            _log_raylet_messages()
            self._users += 1

    def detach(self) -> None:
        """Leave. The last to leave ends what was started here."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self._end()

    def end_at_exit(self) -> None:
        """End what a script has left running."""
        with self._lock:
            if self._users:
                self._users = 0
                self._end()

    def _end(self) -> None:
        import ray

        ray.shutdown()
        if self._temp_dir is not None:
            shutil.rmtree(self._temp_dir, ignore_errors=True)
            self._temp_dir = None

    def _start(self, settings: RaySettings) -> None:
        import ray

        temp_dir = settings.temp_dir
        if temp_dir is None:
            _sweep_temp_dirs()
            temp_dir = self._temp_dir = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX))
            (temp_dir / "owner").write_text(str(os.getpid()), encoding="ascii")
        options: dict[str, Any] = {
            **QUIET,
            "include_dashboard": settings.dashboard,
            "dashboard_port": settings.dashboard_port,
            "object_store_memory": settings.object_store_mib * 2**20,
            "_temp_dir": str(temp_dir),
        }
        ray.init(address="local", **options)


LOCAL_RAY = LocalRay()
"""Ray itself knows one attachment a process, so there is one of these."""
atexit.register(LOCAL_RAY.end_at_exit)


def _sweep_temp_dirs() -> None:
    """Remove what killed processes of this user have left behind."""
    for owner in Path(tempfile.gettempdir()).glob(f"{TEMP_PREFIX}*/owner"):
        try:
            is_ours, pid = owner.stat().st_uid == os.getuid(), int(owner.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if is_ours and not is_running(pid):
            shutil.rmtree(owner.parent, ignore_errors=True)


def _join(address: str) -> None:
    import ray

    options: dict[str, Any] = dict(QUIET)
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterUnreachableError(address, str(error).splitlines()[0]) from error


def _log_raylet_messages() -> None:
    """Log the raylet's warnings; Ray prints them between the script's own lines, whatever it was told.

    A few conversations that start at once are enough for one.
    """
    from ray._private import worker

    private: Any = worker

    def log(data: dict[str, Any], **_: object) -> None:
        logger.info("%s: %s", data.get("pid"), " ".join(data.get("lines", ())))

    private.print_to_stdstream = log


def _prepare_environment(address: str | None) -> None:
    """What has to be set before Ray is imported: no usage reports, and a token for a Ray of our own."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves conversations beside any other work
    if address is not None or os.environ.get("RAY_AUTH_MODE"):
        return
    if "ray" in sys.modules:
        warnings.warn(
            "Ray was imported before connect(): its control ports are open without a token. Import perdure first,"
            " or set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH yourself.",
            stacklevel=5,
        )
        return
    # Ray's control ports listen on every interface, whatever address is asked for.
    token = Path(tempfile.mkdtemp(prefix="perdure-token-")) / "token"
    descriptor = os.open(token, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, secrets.token_hex(32).encode())
    os.close(descriptor)
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    atexit.register(shutil.rmtree, token.parent, ignore_errors=True)
