"""The same fact told again is the same fact: it is neither deleted nor stored twice.

https://github.com/mem0ai/mem0/issues/1674
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.memories import EVERYTHING, a_write, memory_id, open_memories, write

pytestmark = pytest.mark.cases


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_fact_told_fifty_times_is_one_row_with_one_id_and_one_change_of_its_vector(
    tmp_path: Path, in_one_batch: bool
) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    told = [a_write(number, "name", "Ana") for number in range(1, 51)]
    if in_one_batch:
        write(store, *told)
    else:
        for each in told:
            write(store, each)
    readers = store.readers()
    [memory] = readers.memories.history(EVERYTHING, "name")
    assert (memory.memory_id, memory.version, memory.value) == (memory_id(1), 1, "Ana")
    assert len(readers.outbox.pending("vector")) == 1
    store.close()
