"""What may be stored of a memory, and what a refusal says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.storage.errors import InvalidInputError
from perdure.storage.memory_keys import Scope
from perdure.storage.memory_store import MemoryStore
from perdure.storage.memory_write_records import WriteRefused
from perdure.storage.records import ContactId
from tests.fixtures.memories import ANA, EVERYTHING, a_write, current, open_memories, write


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    opened = open_memories(tmp_path / "memory.duckdb")
    yield opened
    opened.close()


def refusal(store: MemoryStore, **changes: Any) -> str:
    [refused] = store.write_memories(writes=[a_write(1, **changes)])
    assert isinstance(refused, WriteRefused), refused
    assert isinstance(refused.error, InvalidInputError)
    assert refused.write_id == "w1" or "write_id" in changes
    assert store.readers().scan.counts().active == 0
    return str(refused.error)


TEXTS = (
    "x",
    "a:b.c_d-e/f",
    'it\'s "quoted" `so` \\ %s $1 ?',
    "%_ 100% _",
    "'; DROP TABLE agent_state; --",
    "👨‍👩‍👧‍👦 🇯🇵 👍🏽",
    "\u200f\u05e9\u05dc\u05d5\u05dd\u200e e\u0301",
    "line\nline\ttab\r",
    "k" * 1024,
)


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_a_key_a_value_and_a_name_and_comes_back_as_it_was(store: MemoryStore, text: str) -> None:
    write(store, a_write(1, text, text, scope=ANA, fact_type=text, graph_id=text, session_id=text, source=text))
    memory = current(store, text, ANA)
    assert (memory.key, memory.value, memory.fact_type, memory.graph_id) == (text, text, text, text)
    assert store.readers().memories.by_vector_ids(EVERYTHING, [memory.vector_id]) == {memory.vector_id: memory}


@settings(max_examples=25)
@given(key=st.text(min_size=1, max_size=30).filter(lambda text: not text.isspace()), contact=st.text(max_size=5))
def test_whatever_a_key_and_a_contact_are_made_of_what_is_written_is_found_or_refused(
    key: str, contact: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = open_memories(tmp_path_factory.mktemp("input") / "memory.duckdb")
    scope = Scope(contact_id=ContactId(contact))
    [result] = store.write_memories(writes=[a_write(1, key, scope=scope)])
    if isinstance(result, WriteRefused):
        assert "contact_id" in str(result.error)
    else:
        assert current(store, key, scope).value == "blue"
    store.close()


def test_nul_and_half_a_pair_become_a_replacement_character_and_the_key_is_found_as_it_was_given(
    store: MemoryStore,
) -> None:
    write(store, a_write(1, "a\0b\ud83d", "c\0d\udc00", metadata='{"x": "\\u0000\\ud83d"}'))
    memory = current(store, "a\0b\ud83d")
    assert (memory.key, memory.value) == ("a\ufffdb\ufffd", "c\ufffdd\ufffd")
    assert memory.metadata == '{"x": "\\u0000\\ud83d"}'
    assert write(store, a_write(2, memory.key, memory.value))[0].outcome == "confirmed"


def test_a_value_of_a_megabyte_is_stored_and_one_above_the_limit_is_refused_with_both_sizes(
    tmp_path: Path,
) -> None:
    store = open_memories(tmp_path / "memory.duckdb")
    write(store, a_write(1, "big", "🛫" * (1 << 18)), a_write(2, "long", "x" * (1 << 20)))
    assert len(current(store, "long").value) == 1 << 20
    store.close()
    store = open_memories(tmp_path / "small.duckdb", max_value_chars=10)
    assert refusal(store, value="x" * 11) == (
        "value: the text has 11 characters, the limit is 10; send a shorter text, or raise the setting"
        " memory.max_value_chars"
    )
    store.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key": "k" * 10_240}, "key: it has 10,240 characters, the limit is 1,024; shorten it"),
        ({"key": ""}, "key: it is empty or blank; give a non-empty string"),
        ({"key": None}, "key: it is NoneType, not text; give a non-empty string"),
        ({"value": None}, "value: a text is a string, not None; give a string"),
        ({"value": "\n\t"}, "value: the text is blank (2 characters of white space)"),
        ({"value": ""}, "value: the text is empty"),
        ({"fact_type": " "}, "fact_type: it is empty or blank"),
        ({"metadata": "{"}, "metadata: it cannot be read as JSON"),
        ({"metadata": '{"x": NaN}'}, "metadata: it cannot be read as JSON"),
        ({"metadata": "3"}, "metadata: it is a JSON int, not an object; give an object"),
        ({"metadata": '{"x": "' + "y" * 100_000 + '"}'}, "metadata: it has 100,009 characters of JSON, the limit is"),
        ({"metadata": "[" * 100_000}, "metadata: it cannot be read as JSON"),
        ({"confidence": 1.5}, "confidence: 1.5 is not between 0 and 1"),
        ({"confidence": "high"}, "confidence: 'high' is not between 0 and 1"),
        ({"memory_id": "42"}, "memory_id: '42' is no UUID"),
        ({"scope": Scope(contact_id=ContactId("a\0"))}, "contact_id: 'a\\x00' has characters that no file takes"),
        ({"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, "at: datetime.datetime(1, 1, 1"),
        ({"valid_from": "yesterday"}, "valid_from: 'yesterday' is no moment"),
        ({"write_id": ""}, "write_id: it is empty or blank"),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_naming_the_field(
    store: MemoryStore, changes: dict[str, Any], said: str
) -> None:
    assert refusal(store, **changes).startswith(said)


def test_an_unknown_fact_type_is_kept_as_it_was_given_and_folds_into_fact(store: MemoryStore) -> None:
    write(store, a_write(1, fact_type="Hunch (weak)"))
    assert (current(store).fact_type, current(store).kind) == ("Hunch (weak)", "fact")


def test_a_naive_moment_is_utc_and_the_oldest_and_the_latest_are_stored(store: MemoryStore) -> None:
    oldest, latest = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    write(store, a_write(1, at=latest.replace(tzinfo=None), valid_from=oldest.replace(tzinfo=None)))
    assert (current(store).valid_from, current(store).created_at) == (oldest, latest)
