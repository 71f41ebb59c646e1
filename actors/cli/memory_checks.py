"""What `perdure doctor` looks at in memories, their indexes, and the embedded model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...jobs.memory_requests import Difference
from ...storage.errors import EmbeddedModelError, PerdureError
from ...storage.memory_index_records import MemoryCounts
from ..client.runtime import connect
from .findings import Finding, ok, problem, warning

ANSWER_S = 120.0


def check_embedded_model() -> Finding:
    """Are the files of the embedded embedder those that are expected?"""
    from ...jobs.embedded_files import check_files

    try:
        return ok("embedded model", check_files())
    except EmbeddedModelError as error:
        return problem("embedded model", str(error), "install perdure with its dependencies again")


def check_memory(path: Path, *, is_served: bool) -> Iterator[Finding]:
    """Compare memories with what the indexes hold; what differs is repaired."""
    if not is_served:
        yield ok("memory", "no runtime serves it; the indexes are compared when one does")
        return
    try:
        with connect(path) as runtime:
            counts: MemoryCounts = runtime.memory_call("counts", timeout_s=ANSWER_S)
            differences: list[Difference] = list(runtime.memory_call("differences", True, timeout_s=ANSWER_S))
    except PerdureError as error:
        yield problem("memory", str(error), "see the error; `perdure inspect` shows what runs")
        return
    waiting = ", ".join(f"{count:,} for the {kind} index" for kind, count in counts.pending.items() if count)
    told = f"{counts.active:,} active, {counts.superseded:,} superseded, {counts.unverified:,} to be verified"
    yield ok("memory", f"{told}; waiting: {waiting or 'nothing'}")
    for kind, count in counts.parked.items():
        remedy = "`perdure reindex` tells the index once more"
        yield warning("memory", f"{count:,} changes could not be put into the {kind} index", remedy)
    for difference in differences:
        subject = f"{difference.kind} index"
        if difference.problem is not None:
            yield problem(subject, difference.problem, f"`perdure reindex --kind {difference.kind}` makes it anew")
        elif difference.count:
            text = f"{difference.missing:,} memories were missing and {difference.surplus:,} too many; it was repaired"
            yield warning(subject, text, "nothing to do; if it happens again, please report it")
        else:
            yield ok(subject, "it agrees with the memories")
