"""What `perdure doctor` looks at in memories, their indexes, and the embedded model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ...jobs.memory_requests import Difference
from ...storage.data_directory import DataDirectory
from ...storage.errors import EmbeddedModelError, PerdureError
from ...storage.layout import memory_path
from ...storage.memory_index_records import MemoryCounts
from ...storage.memory_store import MemoryStore
from ...storage.settings import Settings
from ...storage.settings_sources import settings_as_mapping
from ..client.runtime import connect
from .findings import Finding, ok, problem, warning
from .output import amount

ANSWER_S = 120.0


def check_embedded_model() -> Finding:
    """Are the files of the embedded embedder those that are expected?"""
    from ...jobs.embedded_files import check_files

    try:
        return ok("embedded model", check_files())
    except EmbeddedModelError as error:
        return problem("embedded model", str(error), "install perdure with its dependencies again")


def check_memory(path: Path, settings: Settings, *, is_served: bool) -> Iterator[Finding]:
    """Compare memories with what the indexes hold; what differs is repaired.

    Their owner is asked if there is one. If there is none, the file is read in its place, and the indexes are left
    alone.

    Args:
        settings: Those in force.
    """
    try:
        counts, differences = _ask_owner(path, settings) if is_served else (_read(path, settings), ())
    except PerdureError as error:
        yield problem("memory", str(error), "see the error; conversations go on without memories until then")
        return
    waiting = ", ".join(f"{count:,} for the {kind} index" for kind, count in counts.pending.items() if count)
    told = f"{counts.active:,} active, {counts.superseded:,} superseded, {counts.unverified:,} to be verified"
    yield ok("memory", f"{told}; waiting: {waiting or 'nothing'}")
    if not is_served:
        yield ok("memory", "no runtime serves it; the indexes are compared when one does")
    for kind, count in counts.parked.items():
        remedy = "`perdure reindex` tells the index once more"
        yield warning("memory", f"{count:,} changes could not be put into the {kind} index", remedy)
    for difference in differences:
        subject = f"{difference.kind} index"
        if difference.problem is not None:
            yield problem(subject, difference.problem, f"`perdure reindex --kind {difference.kind}` makes it anew")
        elif difference.count:
            lacked = amount(difference.missing, "memory", "memories")
            text = f"it lacked {lacked} and had {difference.surplus:,} too many; it was repaired"
            yield warning(subject, text, "nothing to do; if it happens again, please report it")
        else:
            yield ok(subject, "it agrees with the memories")


def _ask_owner(path: Path, settings: Settings) -> tuple[MemoryCounts, Sequence[Difference]]:
    with connect(path, settings=settings_as_mapping(settings)) as runtime:
        counts: MemoryCounts = runtime.memory_call("counts", timeout_s=ANSWER_S)
        differences: Sequence[Difference] = runtime.memory_call("differences", True, timeout_s=ANSWER_S)
    return counts, differences


def _read(path: Path, settings: Settings) -> MemoryCounts:
    """The file itself, held so that no runtime starts meanwhile."""
    directory = DataDirectory.prepare(path)
    directory.hold()
    try:
        with closing(MemoryStore.open(memory_path(directory.path), settings.memory)) as store:
            return store.readers().scan.counts()
    finally:
        directory.release()
