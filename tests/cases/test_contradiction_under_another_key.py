"""A fact that contradicts one under another key takes its place: exactly one of them is current.

https://github.com/mem0ai/mem0/issues/4536
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.storage.errors import ModelUnavailableError
from tests.fixtures.conversation_file import at
from tests.fixtures.decisions import ToldDecisions
from tests.fixtures.memories import ANA, BO, EVERYTHING, a_write, open_memories, version
from tests.fixtures.verified_writes import verified_write

pytestmark = pytest.mark.cases


def test_the_opposite_preference_is_the_only_current_one_and_the_former_points_to_it(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    verified_write(store, a_write(1, "food.thai", "loves Thai food"))
    verdict, result = verified_write(store, a_write(2, "thai_food", "hates Thai food"))
    memories = store.readers().memories
    assert [(memory.value, memory.verification) for memory in memories.page(EVERYTHING)] == [
        ("hates Thai food", "verified")
    ]
    [former] = memories.history(EVERYTHING, "food.thai")
    assert (former.value, former.superseded_by) == ("loves Thai food", version(2))
    assert (former.reason, result.superseded) == (verdict.reason, (version(1),))
    store.close()


def test_the_preference_of_somebody_else_stays(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    verified_write(store, a_write(1, "food.thai", "loves Thai food", scope=ANA))
    verified_write(store, a_write(2, "thai_food", "hates Thai food", scope=BO))
    assert len(store.readers().memories.page(EVERYTHING)) == 2
    store.close()


def test_a_message_imported_late_does_not_bring_an_opposite_back(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    verified_write(store, a_write(1, "food.thai", "hates Thai food"))
    imported = a_write(2, "thai_food", "loves Thai food", valid_from=at(0))
    verdict, result = verified_write(store, imported)
    assert verdict.outdated_by.version_id == version(1)
    store.supersede(
        agent_id=imported.agent_id,
        versions=[result.version_id],
        by=verdict.outdated_by.version_id,
        reason="said before what is known",
        at=imported.at,
    )
    assert [memory.value for memory in store.readers().memories.page(EVERYTHING)] == ["hates Thai food"]
    store.close()


def test_both_stay_and_the_newer_is_unverified_while_no_model_can_be_asked(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    verified_write(store, a_write(1, "food.thai", "loves Thai food"))
    failing = ToldDecisions(failure=ModelUnavailableError("told", "it is down"))
    verdict, _ = verified_write(store, a_write(2, "thai_food", "hates Thai food"), failing)
    assert "it is down" in str(verdict.failure)
    stored = {memory.value: memory.verification for memory in store.readers().memories.page(EVERYTHING)}
    assert stored == {"loves Thai food": "not_needed", "hates Thai food": "unverified"}
    store.close()
