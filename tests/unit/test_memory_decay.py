"""How memories that are not used become less sure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.storage.memory_records import VersionId
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import Access
from tests.fixtures.memories import (
    AGENT,
    EVERYTHING,
    OTHER_AGENT,
    a_write,
    current,
    file_of,
    memory_id,
    open_memories,
    version,
    write,
)

TODAY = datetime(2024, 6, 1, 4, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


def days(count: float) -> datetime:
    """So many days before today."""
    return TODAY - timedelta(days=count)


def decayed(store: MemoryStore, at: datetime = TODAY, **changes: Any) -> list[VersionId]:
    given: dict[str, Any] = {"agent_id": AGENT, "factor": 0.8, "floor": 0.1, **changes}
    return store.decay(idle_since=at - timedelta(days=30), at=at, **given)


def test_what_was_idle_for_thirty_days_is_less_sure_and_the_rest_is_not(store: MemoryStore) -> None:
    write(store, a_write(1, "old", at=days(30)), a_write(2, "new", at=days(29.9)), a_write(3, "used", at=days(90)))
    write(store, a_write(4, "confirmed", at=days(90)), a_write(5, "gone", at=days(90)))
    write(store, a_write(6, "confirmed", at=days(1)), a_write(7, "theirs", at=days(90), agent_id=OTHER_AGENT))
    store.record_access(agent_id=AGENT, accesses=[Access(memory_id=memory_id(3), at=days(2))])
    store.forget(agent_id=AGENT, scope=a_write(5).scope, key="gone", at=days(80))
    assert decayed(store) == [version(1)]
    memory = current(store, "old")
    assert (memory.confidence, memory.decayed_at, memory.updated_at) == (pytest.approx(0.72), TODAY, days(30))
    assert {current(store, key).confidence for key in ("new", "used", "confirmed")} == {0.9}


def test_it_decays_once_a_utc_day_and_not_below_the_floor(store: MemoryStore) -> None:
    write(store, a_write(1, at=days(90), confidence=0.15))
    assert decayed(store) == [version(1)]
    before = file_of(store)
    assert decayed(store) == decayed(store, TODAY + timedelta(hours=19, minutes=59)) == []
    assert file_of(store) == before
    assert current(store).confidence == pytest.approx(0.12)
    assert decayed(store, TODAY + timedelta(hours=20)) == [version(1)]
    assert current(store).confidence == 0.1
    assert decayed(store, TODAY + timedelta(days=9)) == []


def test_a_confidence_below_the_floor_stays_where_it_is(store: MemoryStore) -> None:
    write(store, a_write(1, at=days(90), confidence=0.05))
    assert decayed(store) == []
    assert current(store).confidence == 0.05


def test_a_decay_tells_the_indexes_nothing(store: MemoryStore) -> None:
    write(store, a_write(1, at=days(90)))
    pending = len(store.readers().outbox.pending("keyword"))
    decayed(store)
    assert len(store.readers().outbox.pending("keyword")) == pending
    assert len(store.readers().memories.every_version(EVERYTHING)) == 1
