"""A memory is seen by those whom it concerns, on every path, and by nobody else.

https://github.com/MervinPraison/PraisonAI/issues/4818
https://github.com/rohitg00/agentmemory/issues/817
https://github.com/rohitg00/agentmemory/issues/1160
https://github.com/mem0ai/mem0/issues/3773
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.storage.memory_keys import Scope, Visibility, query_tokens
from perdure.storage.memory_records import MemoryFilter
from perdure.storage.records import ContactId
from tests.fixtures.conversation_file import at
from tests.fixtures.memories import AGENT, ANA, BO, a_write, memory_id, open_memories, sees, write

pytestmark = pytest.mark.cases


def test_two_contacts_with_the_same_key_never_meet_each_others_allergy(tmp_path: Path) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "allergy", "nuts", scope=ANA), a_write(2, "allergy", "milk", scope=BO))
    memories, bo = store.readers().memories, sees(BO)
    tokens = query_tokens("any allergy?")
    assert [memory.value for memory in memories.page(bo)] == ["milk"]
    assert [memory.value for memory in memories.page(bo, MemoryFilter(containing="nuts"))] == []
    assert [match.memory.value for match in memories.exact_key(bo, tokens)] == ["milk"]
    assert [match.memory.value for match in store.hot.exact_key(bo, tokens)] == ["milk"]
    assert [memory.value for memory in memories.history(bo, "allergy")] == ["milk"]
    assert [memory.value for memory in memories.as_of(bo, at(99))] == ["milk"]
    assert memories.by_id(bo, memory_id(1)) is None
    assert store.update_memory(visible=bo, memory_id=memory_id(1), value="none", at=at(3)) is None
    assert store.erase_memories(visible=bo, memory_ids=[memory_id(1)], at=at(3)).versions == 0
    assert memories.current(sees(ANA), "allergy").value == "nuts"
    store.close()


@pytest.mark.parametrize(
    "contact",
    ["Ana", "ana", "ANA SILVA", "josé@example.org", "+351 900 000 000", "用户一", "a:b:c", "o'brien", '"', "%", "_"],
)
def test_the_owner_finds_its_memory_again_whatever_its_id_looks_like(tmp_path: Path, contact: str) -> None:
    path, scope = tmp_path / "memory.duckdb", Scope(contact_id=ContactId(contact))
    store = open_memories(path)
    others = ["Ana", "ana", "%", "_", "用户", "a:b", "a"]
    for number, other in enumerate([name for name in others if name != contact], start=2):
        write(store, a_write(number, "k", "another's", scope=Scope(contact_id=ContactId(other))))
    write(store, a_write(1, "k", "mine", scope=scope))
    store.close()
    store = open_memories(path)
    own = Visibility.of_contact(AGENT, ContactId(contact))
    [memory] = store.readers().memories.page(own)
    assert (memory.value, memory.scope) == ("mine", scope)
    assert store.hot.by_vector_ids(own, [memory.vector_id]) == {memory.vector_id: memory}
    store.close()
