"""Keys of memories, and that no key can look like another scope's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.storage.memory_keys import (
    AGENT_WIDE,
    AgentId,
    Scope,
    VectorId,
    key_segments,
    key_shown,
    parse_vector_id,
    query_tokens,
    vector_id,
)
from perdure.storage.memory_records import kind_of
from perdure.storage.records import ContactId

parts = st.text(st.sampled_from(":%3A25ab/contactmemory 'é🛫"), min_size=1, max_size=12)
scopes = st.none().map(lambda _: AGENT_WIDE) | parts.map(lambda name: Scope(contact_id=ContactId(name)))
places = st.tuples(parts.map(AgentId), scopes, parts)


@given(places)
def test_a_vector_id_gives_back_what_it_was_made_of(place: tuple[AgentId, Scope, str]) -> None:
    assert parse_vector_id(vector_id(*place)) == place


@given(places, places)
def test_different_places_have_different_vector_ids(
    one: tuple[AgentId, Scope, str], other: tuple[AgentId, Scope, str]
) -> None:
    assert (vector_id(*one) == vector_id(*other)) == (one == other)


def test_a_key_that_is_written_like_a_contacts_stays_agent_wide() -> None:
    ana = Scope(contact_id=ContactId("ana"))
    assert key_shown(AGENT_WIDE, "contact:ana:x") == key_shown(ana, "x") == "memory:contact:ana:x"
    agent = AgentId("a")
    assert vector_id(agent, AGENT_WIDE, "contact:ana:x") == "mem:a:memory:contact%3Aana%3Ax"
    assert vector_id(agent, ana, "x") == "mem:a:memory:contact:ana:x"


@pytest.mark.parametrize("text", ["", "mem", "mem:a:memory", "mem:a:memory:x:y", "x:a:memory:k", "mem:a:memory:%3a%"])
def test_what_is_no_vector_id_is_none(text: str) -> None:
    assert parse_vector_id(VectorId(text)) is None


@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("food.thai", "do I like THAI?"),
        ("user:favorite_color", "favorite things"),
        ("work/role-2024", "(role)"),
        ("ключ", "где Ключ?"),
        ("straße", "STRASSE 5"),
        ("c++", "is it c++?"),
        ("host:10.0.0.7", "ping 10.0.0.7"),
        ("名前", "名前 は"),
    ],
)
def test_a_segment_of_a_key_is_found_among_the_words_of_a_query(key: str, query: str) -> None:
    assert key_segments(key) & query_tokens(query)


def test_parts_of_segments_and_empty_ones_match_nothing() -> None:
    assert not key_segments("food..thai::_-/") & query_tokens("foo, thais & ... : food's") - {"food"}
    assert query_tokens(" \n?!") == frozenset()
    assert key_segments("::") == frozenset()


@pytest.mark.parametrize(
    ("fact_type", "kind"),
    [
        ("preference", "fact"), ("identity", "fact"), ("relationship", "fact"), ("decision", "fact"),
        ("reflection", "fact"), ("fact", "fact"), ("goldfish", "fact"), ("event", "event"),
        ("workflow-outcome", "event"), ("workflow-failure", "event"), ("instruction", "instruction"),
        ("skill", "instruction"), ("task", "task"), (" Task ", "task"),
    ],
)  # fmt: skip
def test_a_fact_type_folds_into_a_kind(fact_type: str, kind: str) -> None:
    assert kind_of(fact_type) == kind
