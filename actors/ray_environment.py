"""What Ray has to find around it: its environment variables, the token, a directory for its sockets and logs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..storage.liveness import is_running
from .user_token import token_path

TEMP_PREFIX = "perdure-ray-"


def prepare_ray(*, with_token: bool) -> None:
    """Set what Ray reads when it is imported: no usage reports, and the user's token where a local Ray is meant.

    An authentication that the environment already names stays: host and clients inherit the same.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_event_stats", "0")  # how long Ray's own handlers take
    os.environ.setdefault("RAY_enable_timeline", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves conversations beside any other work
    if not with_token or os.environ.get("RAY_AUTH_MODE"):
        return
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token_path())
    if "ray" in sys.modules:  # the script imported it first, so it has read its settings without the token
        from ray import _raylet

        private: Any = _raylet
        private.Config.initialize("")
        private.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def ray_temp_dir(chosen: Path | None) -> Iterator[Path]:
    """The directory of a Ray: the one chosen, or a new one, which is removed at the end."""
    if chosen is not None:
        yield chosen
        return
    _sweep_temp_dirs()
    temp_dir = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX))
    try:
        (temp_dir / "owner").write_text(str(os.getpid()), encoding="ascii")
        yield temp_dir
    finally:
        shutil.rmtree(temp_dir, ignore_errors=True)


def _sweep_temp_dirs() -> None:
    """Remove what killed processes of this user have left behind."""
    for owner in Path(tempfile.gettempdir()).glob(f"{TEMP_PREFIX}*/owner"):
        try:
            is_ours, pid = owner.stat().st_uid == os.getuid(), int(owner.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if is_ours and not is_running(pid):
            shutil.rmtree(owner.parent, ignore_errors=True)
