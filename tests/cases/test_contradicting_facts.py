"""A fact that contradicts a known one takes its place: neither both go, nor both stay.

https://github.com/mem0ai/mem0/issues/4536
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.memories import EVERYTHING, a_write, open_memories, version, write

pytestmark = pytest.mark.cases


def test_the_opposite_preference_is_the_only_current_one_and_the_former_points_to_it(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "food.thai", "loves Thai food"))
    write(store, a_write(2, "food.thai", "hates Thai food"))
    memories = store.readers().memories
    assert [memory.value for memory in memories.page(EVERYTHING)] == ["hates Thai food"]
    former, latter = memories.history(EVERYTHING, "food.thai")
    assert (former.value, former.superseded_by, latter.superseded_by) == ("loves Thai food", version(1, 2), None)
    store.close()
