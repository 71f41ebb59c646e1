"""Memory over its indexes: what was deleted comes back by no way, and nobody sees what is another's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.jobs.memory_requests import KeyRecall, RecallQuery
from perdure.jobs.memory_service import MemoryService
from perdure.storage.memory_records import MemoryId
from tests.fixtures.memories import AGENT, ANA, BO, sees
from tests.fixtures.memory_service import MemoryWorld

pytestmark = pytest.mark.cases

MARKER = "peanuts-7431"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path)
    yield world
    world.close()


def test_what_was_deleted_is_not_found_after_a_restart_nor_after_the_indexes_were_made_anew(memory):
    """https://github.com/topoteretes/cognee/issues/3526, https://github.com/MemTensor/MemOS/issues/2331:
    the deletion was answered with success, and searches still returned the fact.
    """
    memory.say("allergy", f"Ana is allergic to {MARKER}", ANA)
    memory.say("pet", "Ana has a dog", ANA)
    memory.forget(AGENT, ANA, "allergy")

    def found() -> list[str]:
        return [hit.memory.key for hit in memory.recalled(f"allergy {MARKER}", ANA, is_filled=True).hits]

    assert found() == ["pet"]
    memory.stop()
    memory.kill()
    memory.start()
    assert found() == ["pet"]
    for kind in ("vector", "keyword"):
        assert memory.do(memory.service.reindex(kind)) == 1
    assert found() == ["pet"]
    assert memory.differences() == {"vector": (0, 0, None), "keyword": (0, 0, None)}


def test_no_way_to_read_shows_a_contact_what_is_anothers(memory):
    """https://github.com/MervinPraison/PraisonAI/issues/4818, https://github.com/rohitg00/agentmemory/issues/817:
    the scope was written with each memory, and one way to read it or another left it out.
    """
    memory.say("allergy", f"Ana is allergic to {MARKER}", ANA)
    memory.say("allergy", "Bo is allergic to nuts", BO)
    [hers] = memory.do(memory.service.page(sees(ANA)))
    asked: dict[str, Any] = {
        "recall": [RecallQuery(visible=sees(BO), text=f"allergy {MARKER}", top_k=100)],
        "recall_key": [
            KeyRecall(visible=sees(BO), key="allergy"),
            KeyRecall(visible=sees(BO), key=None),
            KeyRecall(visible=sees(BO), key="contact:telegram:ana:allergy"),
            KeyRecall(visible=sees(BO), key=None, as_of=memory.clock.now()),
        ],
        "get": [(sees(BO), MemoryId(hers.memory_id))],
        "history": [(sees(BO), "allergy")],
        "page": [(sees(BO),)],
    }
    about_indexes_or_writes = {
        "start", "stop", "remember", "forget", "counts", "reindex", "differences", "problems",
    }  # fmt: skip
    every = {name for name, _ in inspect.getmembers(MemoryService, inspect.isfunction) if not name.startswith("_")}
    assert asked.keys() | about_indexes_or_writes == every, "say how a new method is asked"
    for name, calls in asked.items():
        for given in calls:
            arguments = given if isinstance(given, tuple) else (given,)
            answer = repr(memory.do(getattr(memory.service, name)(*arguments)))
            assert MARKER not in answer, name
            assert "Bo is allergic" in answer or "ana" in repr(given) or name == "get", name


def test_vectors_of_another_length_are_noticed_and_made_anew_while_keywords_go_on(memory):
    """https://github.com/mem0ai/mem0/issues/5405, https://github.com/mem0ai/mem0/issues/4695: after a change of the
    embedding model every insertion failed, or reads left rows out without a word.
    """
    memory.say("pet", "Ana has a dog")
    memory.until_agreed()
    memory.stop()
    memory.kill()
    memory.words.model, memory.words.dimensions = "longer-words", 256
    memory.start()
    answer = memory.recalled("has Ana a dog?")
    assert [hit.memory.key for hit in answer.hits] == ["pet"]
    assert "longer-words with 256 dimensions" in answer.unanswered["vector"]
    memory.do(memory.service.reindex("vector"))
    assert "vector" in memory.found("has Ana a dog?")["Ana has a dog"]
    memory.until_agreed()


def test_a_memory_of_a_megabyte_and_a_query_of_a_hundred_thousand_characters_find_each_other(memory):
    """https://github.com/jeffdafoe/llm-memory-api/pull/272, https://github.com/holaboss-ai/holaOS/pull/541: a text
    over the embedder's limit was left out of the index, or recall came back empty.
    """
    memory.say("other", "nothing of the kind")
    done = memory.say("report", " ".join(f"word{number}" for number in range(110_000)) + " the zebra escaped")
    assert done.not_yet_in == {}
    answer = memory.recalled("the zebra escaped " * 6000)
    assert answer.hits[0].memory.key == "report"
    assert answer.hits[0].memory.value.endswith("the zebra escaped")
