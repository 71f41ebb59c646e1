"""The commands that look at what is stored: what they print, and that they make and wake nothing."""

from __future__ import annotations

import json
import os
import time

import pytest

from perdure.actors.live_marks import live_conversations, live_folder
from perdure.actors.placement import ConversationPlace, conversation_actor
from perdure.actors.testing import CallTools, Pause, Rule, Say, Script
from perdure.storage.errors import TurnAbandonedError

SCRIPT = Script(
    (
        Rule("book", (CallTools((("book", {"seat": "14C"}),), text="I look."), Say("It is yours."))),
        Rule("slow", (Pause(60.0), Say("done"))),
        Rule(None, (Say("ok"),)),
    )
)


def book(seat: str) -> str:
    """Book a seat."""
    return f"{seat} is booked. " + "x" * 1000


@pytest.fixture
def agent(runtime, name):
    return runtime.agent(name, model=SCRIPT, system_prompt="You are kind.", tools=[book])


@pytest.fixture
def command(perdure, runtime):
    return lambda *arguments: perdure("--data-dir", runtime.place.data_dir, *arguments)


def passivate(runtime, chat):
    where = ConversationPlace(agent=chat.agent.name, conversation_id=chat.conversation_id, contact=chat.contact)
    limit = time.monotonic() + 30
    while where.actor_name in live_names(runtime):
        assert time.monotonic() < limit
        conversation_actor(runtime.place, where).passivate.options(max_task_retries=0).remote(0.0)
        time.sleep(0.2)


def live_names(runtime):
    return {live.actor_name for live in live_conversations(live_folder(runtime.place.data_dir))}


def found(output, conversation_id):
    """The facts of a conversation in the JSON of a list."""
    [facts] = [facts for facts in json.loads(output) if facts["conversation_id"] == conversation_id]
    return facts


def test_agents_are_listed_with_model_tools_and_conversations(command, agent, name):
    agent.conversation("c")
    status, output, error = command("agents", "--json")
    [facts] = [facts for facts in json.loads(output) if facts["name"] == name]
    assert (status, error, facts["tools"], facts["conversations"]) == (0, "", ["book"], 1)
    assert facts["system_prompt"] == "You are kind."
    [line] = [line for line in command("agents")[1].splitlines() if line.startswith(name)]
    assert line.endswith("You are kind.") and " book " in line


def test_live_and_dormant_conversations_are_listed_with_their_counts_the_last_used_first(command, runtime, agent, name):
    dormant = agent.conversation("dormant", contact="telegram:1")
    dormant.send("hello")
    passivate(runtime, dormant)
    agent.conversation("live").send("hello")
    status, output, _ = command("conversations", "--agent", name, "--json")
    assert status == 0
    assert [(facts["conversation_id"], facts["state"], facts["messages"]) for facts in json.loads(output)] == [
        ("live", "live", 2),
        ("dormant", "dormant", 2),
    ]
    heading, first, second = command("conversations", "--agent", name)[1].splitlines()
    assert heading.split()[:3] == ["conversation", "agent", "contact"]
    assert first.split()[:4] == ["live", name, "2", "live"]
    assert second.split()[:5] == ["dormant", name, "telegram:1", "2", "dormant"]
    assert len(command("conversations", "--agent", name, "--limit", 1)[1].splitlines()) == 2


def test_inspect_tells_process_memory_and_idle_time_and_wakes_nothing(command, runtime, agent, name):
    dormant, live = agent.conversation("dormant"), agent.conversation("live")
    dormant.send("hello")
    live.send("hello")
    pid, epoch = live.inspect().pid, live.inspect().epoch
    passivate(runtime, dormant)
    before = live_names(runtime)
    time.sleep(1.0)
    status, output, _ = command("inspect", "--agent", name, "--json")
    facts = found(output, "live")
    assert (status, facts["pid"], facts["epoch"], facts["turn"]) == (0, pid, epoch, None)
    assert facts["memory_mib"] is None or 20 < facts["memory_mib"] < 1000
    again = found(command("inspect", "--agent", name, "--json")[1], "live")
    assert again["idle_s"] >= facts["idle_s"] >= 1.0  # looking is no use
    facts = found(output, "dormant")
    assert (facts["state"], facts["pid"], facts["messages"], facts["undelivered"]) == ("dormant", None, 2, 0)
    _, output, _ = command("inspect", "dormant", "--agent", name)
    assert "dormant" in output
    assert command("conversations", "--agent", name)[0] == 0
    assert live_names(runtime) == before


def test_inspect_names_the_turn_that_is_at_work(command, agent, name):
    chat = agent.conversation("c")
    pending = chat.send.pending("slow", turn_id="long-one")
    limit = time.monotonic() + 30
    while not any(turn.is_running for turn in chat.inspect().open_turns):
        assert time.monotonic() < limit
    assert found(command("inspect", "--agent", name, "--json")[1], "c")["turn"] == "long-one"
    assert "turn long-one: running since" in command("inspect", "c", "--agent", name)[1]
    assert list(chat.cancel()) == ["long-one"]
    with pytest.raises(TurnAbandonedError):
        pending.result(30)


def test_show_prints_messages_calls_and_cut_results_with_turn_and_time(command, agent):
    chat = agent.conversation("shown")
    chat.send("book it", turn_id="t1")
    status, output, _ = command("show", "shown", "--agent", agent.name)
    lines = output.splitlines()
    assert status == 0
    assert lines[0] == f"conversation shown of agent {agent.name}: 4 messages"
    assert lines[1].startswith("#0  20") and lines[1].endswith("Z  user  turn t1")
    assert lines[2] == "    book it"
    assert lines[4:6] == ["    I look.", '    tool book {"seat": "14C"}']
    assert lines[6].startswith("        succeeded after ") and lines[6].endswith("xxx…") and len(lines[6]) < 400
    assert lines[-1] == "    It is yours."
    messages = json.loads(command("show", "shown", "--agent", agent.name, "--json")[1])["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["content"].endswith("x" * 1000)  # uncut
    assert len(json.loads(command("show", "shown", "--agent", agent.name, "--json", "--limit", 1)[1])["messages"]) == 1


def test_context_prints_what_the_model_would_see_part_by_part_and_stores_nothing(command, agent):
    chat = agent.conversation("seen")
    chat.send("book it")
    chat.set_context("Ana likes the aisle")
    status, output, _ = command("context", "seen", "--agent", agent.name, "--text", "and now?", "--json")
    shown, expected = json.loads(output), chat.context("and now?")
    assert (status, shown["tokens"]) == (0, expected.tokens)
    contents = [message["content"] for part in shown["parts"] for message in part["messages"]]
    assert contents == [message.content for message in expected.messages]
    assert [part["name"] for part in shown["parts"]] == [part.name for part in expected.parts]
    assert "book" in shown["tools"] and "set_context" in shown["tools"]
    plain = command("context", "seen", "--agent", agent.name, "--text", "and now?")[1]
    for text in ("You are kind.", "Ana likes the aisle", "and now?", f"{expected.tokens:,} of 32,000 tokens"):
        assert text in plain
    assert len(chat.history()) == 4


@pytest.mark.parametrize("command_name", ["show", "context", "inspect"])
def test_a_name_that_does_not_exist_is_one_line_with_what_is_close_and_makes_nothing(
    command, runtime, agent, name, command_name
):
    agent.conversation("support-42")
    status, output, error = command(command_name, "suport-42", "--agent", name)
    assert (status, output) == (1, "")
    assert error == (
        f"perdure: CONVERSATION: agent {name!r} has no conversation 'suport-42'; did you mean 'support-42'?\n"
    )
    status, output, error = command(command_name, "support-42", "--agent", f"{name}x")
    assert (status, output) == (1, "")
    assert error.startswith(f"perdure: --agent: there is no agent '{name}x'; did you mean ")
    assert repr(name) in error and error.count("\n") == 1
    assert [record.conversation_id for record in runtime.conversations(name)] == ["support-42"]
    assert f"{name}x" not in [record.name for record in runtime.agents()]


def test_an_id_that_several_agents_have_asks_for_the_agent(command, runtime, agent, name):
    other = runtime.agent(f"{name}-2")
    for owner in (agent, other):
        owner.conversation(f"both-{name}")
    status, _, error = command("show", f"both-{name}")
    assert status == 1
    assert error == (
        f"perdure: --agent: conversation 'both-{name}' exists under 2 agents; name one of {name!r}, '{name}-2'\n"
    )
    assert command("inspect", f"both-{name}", "--agent", other.name)[0] == 0


@pytest.mark.parametrize("arguments", [("agents",), ("conversations",), ("show", "c"), ("context", "c"), ("inspect",)])
def test_where_nothing_is_stored_no_runtime_is_started_and_no_directory_made(perdure_alone, tmp_path, arguments):
    status, output, error = perdure_alone(*arguments, "--data-dir", tmp_path / "typo")
    assert (status, output) == (1, "")
    assert error.splitlines() == [
        f"perdure: --data-dir: nothing is stored in {tmp_path / 'typo'}; name the directory that `connect` uses"
    ]
    assert os.listdir(tmp_path) == []


def test_ids_with_line_ends_and_terminal_orders_keep_to_their_line(command, agent, name):
    agent.conversation("two\nlines \x1b[31m").send("hello")
    _, row = command("conversations", "--agent", name)[1].splitlines()
    assert row.startswith("two lines \N{REPLACEMENT CHARACTER}[31m")
    assert "\x1b" not in command("inspect", "two\nlines \x1b[31m", "--agent", name)[1]
