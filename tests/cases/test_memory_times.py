"""Moments are stored and compared in UTC, whatever the zone of the machine and of who tells them.

https://github.com/getzep/graphiti/issues/920
https://github.com/mem0ai/mem0/issues/4402
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from perdure.storage.memory_records import MemoryFilter
from tests.fixtures.memories import AGENT, EVERYTHING, a_write, current, open_memories, write

pytestmark = pytest.mark.cases

ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The machine's zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize("day", [datetime(2024, 3, 10, tzinfo=UTC), datetime(2024, 11, 3, tzinfo=UTC)])
def test_a_memory_is_of_its_utc_day_on_every_machine_also_when_the_clocks_change(
    zone: str, day: datetime, tmp_path: Path
) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "a", at=day + timedelta(hours=2)), a_write(2, "b", at=day - timedelta(seconds=1)))
    wanted = MemoryFilter(created_from=day, created_to=day + timedelta(days=1))
    memories = store.readers().memories
    [memory] = memories.page(EVERYTHING, wanted)
    assert (memory.key, memory.created_at.isoformat()) == ("a", (day + timedelta(hours=2)).isoformat())
    told = {touch.row_id: touch.touched_s for touch in memories.touches(EVERYTHING)}
    assert told == {touch.row_id: touch.touched_s for touch in store.hot.touches(EVERYTHING)}
    assert told[1] == (day + timedelta(hours=2)).timestamp()
    store.close()


def test_moments_with_and_without_a_zone_supersede_each_other_and_decay(zone: str, tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    moment = datetime(2024, 5, 5, 2, tzinfo=UTC)
    told = [
        moment.replace(tzinfo=None),
        (moment + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9))),
        datetime.fromisoformat("2024-05-05T04:00:00Z"),
    ]
    for number, at in enumerate(told, start=1):
        write(store, a_write(number, value=f"v{number}", at=at))
    assert [memory.valid_from for memory in store.readers().memories.history(EVERYTHING, "color")] == [
        moment + timedelta(hours=hours) for hours in (0, 1, 2)
    ]
    later = told[1] + timedelta(days=40)
    decayed = store.decay(agent_id=AGENT, idle_since=later.replace(tzinfo=None), factor=0.5, floor=0.1, at=later)
    assert [each.version for each in decayed] == [3]
    assert current(store).confidence == 0.45
    store.close()
