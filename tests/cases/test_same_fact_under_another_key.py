"""The same fact told again, under the same key or another, is there once: neither deleted nor stored twice.

https://github.com/mem0ai/mem0/issues/1674
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.memories import EVERYTHING, a_write, memory_id, open_memories
from tests.fixtures.verified_writes import verified_write

pytestmark = pytest.mark.cases


def test_a_fact_told_again_under_its_key_asks_no_model_and_changes_nothing(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    verified_write(store, a_write(1, "pet", "Ana has a cat"))
    for number in range(2, 10):
        verdict, result = verified_write(store, a_write(number, "pet", "Ana has a cat"))
        assert (verdict.verification, result.outcome) == ("not_needed", "confirmed")
    [memory] = store.readers().memories.page(EVERYTHING)
    assert (memory.memory_id, memory.version) == (memory_id(1), 1)
    store.close()


def test_a_fact_told_again_under_other_keys_is_current_once(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    for number, key in enumerate(("pet", "pets", "animal", "pet"), start=1):
        verified_write(store, a_write(number, key, "Ana has a cat" + "." * (number % 2)))
    [memory] = store.readers().memories.page(EVERYTHING)
    assert (memory.key, memory.value) == ("pet", "Ana has a cat")
    store.close()
