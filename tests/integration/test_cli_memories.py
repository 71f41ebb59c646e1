"""The commands about memories: what they print, what they forget, and what `doctor` says of their indexes."""

from __future__ import annotations

import io
import json
import sys

import pytest

from perdure.actors.placement import index_actor

CONTACT = "telegram:1"


@pytest.fixture
def agent(runtime, name):
    agent = runtime.agent(name)
    agent.memories.remember("house.rule", "The office closes at six", "instruction")
    mine = agent.memories_of(CONTACT)
    mine.remember("home.city", "Ana lives in Lisbon", "identity")
    mine.remember("home.city", "Ana lives in Porto")
    return agent


@pytest.fixture
def command(perdure, runtime, agent):
    """Runs `perdure …` for this test's agent."""

    def run(*arguments, agent=agent.name):
        return perdure("--data-dir", runtime.place.data_dir, *arguments, "--agent", agent)

    return run


@pytest.fixture
def doctor(perdure, runtime):
    """Exit status, and the findings by subject."""

    def run():
        status, output, _ = perdure("doctor", "--json", "--data-dir", runtime.place.data_dir)
        found = json.loads(output)
        return status, {finding["subject"]: finding for finding in found}

    return run


def lose(runtime, kind, memory):
    """Take a memory out of an index behind its owner's back."""
    import ray

    ray.get(index_actor(runtime.place, kind).apply.remote("memory", [], [memory.vector_id]))


def test_what_is_remembered_is_listed_with_its_scope_the_newest_first(command):
    status, output, error = command("memories", "list")
    assert (status, error) == (0, "")
    heading, first, second = output.splitlines()
    assert heading.split() == ["key", "value", "type", "confidence", "used", "said", "id"]
    assert " ".join(first.split()[:6]) == f"memory:contact:{CONTACT}:home.city Ana lives in Porto identity"
    assert second.startswith("memory:house.rule ") and "The office closes at six  instruction" in second
    facts = json.loads(command("memories", "list", "--json")[1])
    assert [(fact["contact"], fact["key"], fact["value"], fact["version"]) for fact in facts] == [
        (CONTACT, "home.city", "Ana lives in Porto", 2),
        (None, "house.rule", "The office closes at six", 1),
    ]
    assert facts[0]["id"] in first and facts[0]["superseded_at"] is None


def test_a_list_may_be_of_a_contact_and_of_some_only_and_says_so(command):
    assert len(json.loads(command("memories", "list", "--contact", CONTACT, "--json")[1])) == 2
    [fact] = json.loads(command("memories", "list", "--contact", "somebody else", "--json")[1])
    assert fact["key"] == "house.rule"
    status, output, error = command("memories", "list", "--limit", 1)
    assert (status, len(output.splitlines())) == (0, 2)
    assert error == "the newest 1; --limit shows more\n"


def test_a_search_says_by_which_channels_it_found_what_and_never_finds_what_was_replaced(command):
    status, output, error = command("memories", "search", "Ana's home city, Lisbon or Porto?")
    assert (status, error) == (0, "")
    first = output.splitlines()[1]
    assert "Ana lives in Porto" in first and "vector #" in first and "keyword #" in first and "exact_key #" in first
    assert "lives in Lisbon" not in output
    answer = json.loads(command("memories", "search", "Ana's home city", "--limit", 1, "--json")[1])
    [hit] = answer["hits"]
    assert (hit["value"], set(hit["found_by"]), answer["unanswered"]) == (
        "Ana lives in Porto",
        {"vector", "keyword", "exact_key"},
        {},
    )


def test_a_history_tells_every_version_and_what_took_its_place(command):
    status, output, error = command("memories", "history", "home.city", "--contact", CONTACT)
    assert (status, error) == (0, "")
    lines = output.splitlines()
    assert lines[0].startswith(f"memory:contact:{CONTACT}:home.city  version 1, since 20") and ", until 20" in lines[0]
    assert lines[1] == "    Ana lives in Lisbon"
    assert lines[2] == f"    └ new value: memory:contact:{CONTACT}:home.city: Ana lives in Porto"
    assert lines[3].endswith(", now") and lines[4] == "    Ana lives in Porto"
    versions = json.loads(command("memories", "history", "home.city", "--json")[1])
    assert [version["value"] for version in versions] == ["Ana lives in Lisbon", "Ana lives in Porto"]
    assert versions[0]["superseded_by"] == versions[1]["id"]
    assert command("memories", "history", "pet")[:2] == (0, "nothing was ever remembered under 'pet'\n")
    assert json.loads(command("memories", "history", "pet", "--json")[1]) == []


def test_forget_asks_first_and_forgets_in_the_scope_it_was_told_only(command, agent, monkeypatch):
    mine = agent.memories_of(CONTACT)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    status, output, error = command("memories", "forget", "home.city", "--contact", CONTACT)
    assert (status, output) == (1, "")
    assert "Ana lives in Porto" in error and "Forget it?" in error
    assert [memory.value for memory in mine.recall("home.city")] == ["Ana lives in Porto"]
    assert command("memories", "forget", "home.city", "--yes")[:2] == (0, "nothing is remembered under 'home.city'\n")
    assert len(mine.recall("home.city")) == 1  # the agent-wide scope has no such key
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    status, output, _ = command("memories", "forget", "home.city", "--contact", CONTACT)
    assert (status, output) == (0, f"forgotten: memory:contact:{CONTACT}:home.city\n")
    assert mine.recall("home.city") == []
    assert "└ forgotten: by nothing" in command("memories", "history", "home.city")[1]


def test_forget_with_yes_asks_nobody_and_nobody_to_ask_is_a_no(command, agent, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status, output, error = command("memories", "forget", "house.rule")
    assert (status, output) == (1, "")
    assert "Traceback" not in error and len(agent.memories.recall("house.rule")) == 1
    status, output, _ = command("memories", "forget", "house.rule", "--yes", "--json")
    assert (status, json.loads(output)["value"]) == (0, "The office closes at six")
    assert agent.memories.recall("house.rule") == []
    status, output, _ = command("memories", "forget", "house.rule", "--yes", "--json")
    assert (status, json.loads(output)) == (0, None)


@pytest.mark.parametrize("arguments", [("list",), ("search", "q"), ("history", "k"), ("forget", "k", "--yes")])
def test_an_unknown_agent_is_one_line_with_what_is_close_and_makes_none(command, runtime, name, arguments):
    status, output, error = command("memories", *arguments, agent=f"{name}x")
    assert (status, output) == (1, "")
    assert error.startswith(f"perdure: --agent: there is no agent '{name}x'; did you mean ")
    assert error.count("\n") == 1
    assert f"{name}x" not in [record.name for record in runtime.agents()]


def test_of_an_agent_without_memory_one_line_says_so(command, runtime, name):
    runtime.agent(f"{name}-without", memory=False)
    status, output, error = command("memories", "list", agent=f"{name}-without")
    assert (status, output) == (1, "")
    assert error == f"perdure: agent '{name}-without' has no memory; open it with memory=True\n"


@pytest.mark.parametrize("arguments", [("memories", "list", "--agent", "a"), ("reindex",)])
def test_where_nothing_is_stored_nothing_is_made(perdure_alone, tmp_path, arguments):
    status, output, error = perdure_alone(*arguments, "--data-dir", tmp_path / "typo")
    assert (status, output) == (1, "")
    assert error.startswith("perdure: --data-dir: nothing is stored in ")
    assert list(tmp_path.iterdir()) == []


def test_keys_and_values_with_line_ends_and_terminal_orders_keep_to_their_line(command, agent):
    agent.memories.remember("two\nlines", "it \x1b[31mburns\nbrightly")
    _, output, _ = command("memories", "list")
    assert len(output.splitlines()) == 4
    assert "\x1b" not in output and "memory:two lines" in output
    assert "\x1b" not in command("memories", "history", "two\nlines")[1]


def test_reindex_makes_both_indexes_anew_or_the_one_that_is_named(perdure, runtime, agent, doctor):
    [memory] = agent.memories.recall("house.rule")
    for kind in ("vector", "keyword"):
        lose(runtime, kind, memory)
    status, output, error = perdure("reindex", "--json", "--data-dir", runtime.place.data_dir)
    counts = json.loads(output)
    assert (status, set(counts)) == (0, {"vector", "keyword"})
    assert counts["keyword"] >= counts["vector"] >= 2
    assert "the vector index is being made anew" in error
    assert {doctor()[1][f"{kind} index"]["text"] for kind in counts} == {"it agrees with the memories"}
    status, output, _ = perdure("reindex", "--kind", "keyword", "--data-dir", runtime.place.data_dir)
    assert (status, output) == (0, f"keyword: {counts['keyword']:,} memories\n")


def test_doctor_repairs_an_index_that_differs_says_so_once_and_knows_the_embedded_model(runtime, agent, doctor):
    [memory] = agent.memories.recall("house.rule")
    _, told = doctor()
    assert told["embedded model"]["text"].startswith("bge-small-en-v1.5-int8, model.onnx 32 MiB with sha256 6880")
    assert told["memory"]["text"].partition(" active, ")[0].isdecimal()
    assert "waiting: " in told["memory"]["text"]
    for kind in ("vector", "keyword"):
        lose(runtime, kind, memory)
    _, told = doctor()
    for kind in ("vector", "keyword"):
        finding = told[f"{kind} index"]
        assert finding["level"] == "warning"
        assert finding["text"] == "it lacked 1 memory and had 0 too many; it was repaired"
    _, told = doctor()
    assert {told[f"{kind} index"]["text"] for kind in ("vector", "keyword")} == {"it agrees with the memories"}
    found = agent.memories.fused_recall("When does the office close?", fill=False).hits
    assert {place.channel for place in found[0].ranks} >= {"vector", "keyword"}


def test_doctor_asks_a_runtime_whose_settings_differ_from_this_environment(doctor, agent, monkeypatch):
    monkeypatch.setenv("PERDURE_TURN__MAX_TOOL_ROUNDS", "9")
    _, told = doctor()
    assert told["memory"]["level"] == "ok"
    assert told["vector index"]["level"] == "ok"
