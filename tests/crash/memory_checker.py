"""Holds what clients were told of their memories against the file of memories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perdure.storage.database import Database
from perdure.storage.layout import memory_path
from perdure.storage.memory_keys import AgentId, Visibility
from perdure.storage.memory_reader import MemoryReader
from perdure.storage.memory_records import Memory, VersionId

from .journal import Violation
from .memory_steps import Place, Step

MEMORY_LIMIT_MIB = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemories:
    """An agent's part of the file of memories."""

    versions: Sequence[Memory]
    """All there are, superseded ones too."""
    writes: Mapping[str, int]
    """How many records there are of each write's id."""

    def by_place(self) -> dict[Place, list[Memory]]:
        """The versions under each key of each scope."""
        found: dict[Place, list[Memory]] = defaultdict(list)
        for memory in self.versions:
            found[memory.scope.contact_id, memory.key].append(memory)
        return found


def read_memories(data_dir: Path, agent_id: str) -> StoredMemories:
    """What the file has, read directly once the runtime has let go of it.

    Raises:
        StorageError: It cannot be opened or read.
    """
    with closing(Database.open(memory_path(data_dir), "memory", MEMORY_LIMIT_MIB)) as database:
        versions = MemoryReader(database).every_version(Visibility.of_agent(AgentId(agent_id)))
        rows = database.query(
            "SELECT write_id, count(*) FROM memory_writes WHERE agent_id = ? GROUP BY ALL", [agent_id]
        )
    return StoredMemories(versions=versions, writes={str(write_id): int(str(count)) for write_id, count in rows})


def violations(steps: Sequence[Step], stored: StoredMemories) -> Iterator[Violation]:
    """Every promise that the file does not keep."""
    by_place = stored.by_place()
    for write_id, count in stored.writes.items():
        if count > 1:
            yield Violation(count="duplicates", text=f"write {write_id} is recorded {count} times")
    begun = {(step.place, step.value) for step in steps}
    for place, versions in by_place.items():
        for value, count in Counter(version.value for version in versions).items():
            if count > 1:
                yield Violation(count="duplicates", text=f"{place} has {count} versions {value!r}")
            if (place, value) not in begun:
                yield Violation(count="duplicates", text=f"{place} has {value!r}, which nobody has written there")
        active = [version.value for version in versions if version.is_active]
        if len(active) > 1:
            yield Violation(count="duplicates", text=f"{place} has several active versions: {active}")
    steps_at: dict[Place, list[Step]] = defaultdict(list)
    for step in steps:
        steps_at[step.place].append(step)
    for place, there in steps_at.items():
        versions = by_place.get(place, [])
        yield from _lost(place, there, versions)
        yield from _not_current(place, there, versions)


def _lost(place: Place, steps: Sequence[Step], versions: Sequence[Memory]) -> Iterator[Violation]:
    ids: dict[str, list[VersionId]] = defaultdict(list)
    for version in versions:
        ids[version.value].append(version.version_id)
    for step in steps:
        if step.acked_at_ns is None or step.value is None:
            continue
        if step.value not in ids:
            yield Violation(count="acked_memories_lost", text=f"{place}: {step} left no version")
        elif step.version not in (None, *ids[step.value]):
            yield Violation(count="acked_memories_lost", text=f"{place}: {step} is version {ids[step.value]}")


def _not_current(place: Place, steps: Sequence[Step], versions: Sequence[Memory]) -> Iterator[Violation]:
    """Is what stands there now older than something that was acknowledged?

    Steps that were under way at the same time may have happened in either order, and one that nobody was told of may
    have happened or not.
    """
    now = next((version.value for version in reversed(versions) if version.is_active), None)
    made_it = [step for step in steps if step.value == now]
    for step in steps:
        if step.acked_at_ns is None or (step.value is None and now is None):
            continue
        is_last = any(
            other is step or other.acked_at_ns is None or other.acked_at_ns > step.begun_at_ns for other in made_it
        )
        if not is_last:
            yield Violation(count="acked_memories_lost", text=f"{place} holds {now!r}, though later {step}")
            return
