"""Is another process still there?"""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Does a process of this number run? One that has died and that nobody has asked after yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return not Path("/proc/self").exists()  # gone meanwhile, or a system without /proc
    return state != "Z"
