"""The token that keeps others out of a user's local Rays: one file, readable by that user alone.

Ray's control ports listen on every interface, whatever address is asked for, and a process can use one token
only; so all runtimes of a user share it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ..storage.errors import DataDirectoryError


def token_path() -> Path:
    """The token's file, made if need be.

    Raises:
        DataDirectoryError: The user's state directory cannot be written.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "perdure" / "token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            unfinished = path.with_name(f".token.{os.getpid()}")
            descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            os.write(descriptor, secrets.token_hex(32).encode())
            os.close(descriptor)
            with suppress(FileExistsError):  # create-only: of two that start at once, both use the first one's
                os.link(unfinished, path)
            unfinished.unlink()
    except OSError as error:
        raise DataDirectoryError(
            str(path), f"the token cannot be written ({error.strerror}); set XDG_STATE_HOME to a directory that can"
        ) from error
    return path
