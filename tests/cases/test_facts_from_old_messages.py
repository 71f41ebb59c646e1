"""A fact out of an old message has held since that message, not since it was found there.

https://github.com/getzep/graphiti/pull/1492
https://github.com/MemTensor/MemOS/issues/2369
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.conversation_file import at
from tests.fixtures.memories import EVERYTHING, a_write, open_memories, write

pytestmark = pytest.mark.cases

TWO_YEARS_S = 2 * 365 * 86_400


def test_a_fact_of_a_message_of_two_years_ago_has_held_since_then(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    said = at(-TWO_YEARS_S)
    write(store, a_write(1, "work", "started the new job in the month before", valid_from=said))
    memories = store.readers().memories
    assert memories.current(EVERYTHING, "work").valid_from == said
    assert memories.as_of(EVERYTHING, at(-TWO_YEARS_S - 1)) == []
    assert [memory.key for memory in memories.as_of(EVERYTHING, at(-TWO_YEARS_S / 2))] == ["work"]
    store.close()


def test_an_old_message_that_is_imported_late_does_not_bring_back_what_was_replaced(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "home", "lives in Porto"))
    write(store, a_write(2, "home", "lives in Lisbon", valid_from=at(-TWO_YEARS_S)))
    memories = store.readers().memories
    assert memories.current(EVERYTHING, "home").value == "lives in Porto"
    assert [memory.value for memory in memories.as_of(EVERYTHING, at(-TWO_YEARS_S / 2))] == ["lives in Lisbon"]
    store.close()
