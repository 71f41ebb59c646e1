"""Named places where a crash test may kill the process.

Nothing happens unless the environment variable `PERDURE_FAULT_DIR` names a directory. A file there called
like a fault point arms it: the next process to pass takes the file away, notes the hit and is killed as by
`kill -9`. Files work across processes and can be armed while everything runs.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

FAULT_POINTS = (
    "migration.before_commit",
    "migration.committed",
    "turn.received",
    "turn.before_open_commit",
    "turn.opened",
    "turn.context_built",
    "model.replied",
    "calls.before_commit",
    "calls.committed",
    "tools.started",
    "result.arrived",
    "result.before_commit",
    "result.committed",
    "turn.before_finish",
    "turn.before_finish_commit",
    "turn.finished",
    "tidy.before_checkpoint",
    "tidy.checkpointed",
)
"""In the order in which a turn passes them."""
MEMORY_FAULT_POINTS = ("memory.before_commit", "memory.committed")
"""In the order in which a write of memories passes them."""


def fault_point(name: str) -> None:
    """Die here, as by `kill -9`, if this point is armed."""
    directory = os.environ.get("PERDURE_FAULT_DIR")
    if not directory:
        return
    armed = Path(directory) / name
    taken = Path(directory) / f"{name}.taken.{os.getpid()}"
    try:
        armed.rename(taken)  # atomic: of several processes one dies
    except FileNotFoundError:
        return
    with (Path(directory) / "hits.log").open("a", encoding="utf-8") as hits:
        hits.write(f"{name}\n")
        hits.flush()
        os.fsync(hits.fileno())
    taken.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
