"""What was said is found: at once, on every channel of a person, also after kills, and without waking anybody."""

from __future__ import annotations

import os
import signal
import time

import pytest

from perdure.actors.live_marks import live_conversations, live_folder
from perdure.actors.placement import ConversationPlace, memory_actor
from perdure.actors.testing import CallTools, Rule, Say, Script
from perdure.storage.errors import InvalidInputError, MemoryDisabledError

ECHO = Script((Rule(None, (Say("Noted."),)),))


def texts(recalled):
    return [hit.message.text for hit in recalled.hits]


def until_indexed(chat, timeout_s=60.0):
    limit = time.monotonic() + timeout_s
    while chat.inspect().outbox["index"]:
        assert time.monotonic() < limit, chat.inspect()
        time.sleep(0.1)


def passivate(runtime, chat):
    import ray

    where = ConversationPlace(agent=chat.agent.name, conversation_id=chat.conversation_id, contact=chat.contact)
    limit = time.monotonic() + 30
    while where.actor_name in {live.actor_name for live in live_conversations(live_folder(runtime.place.data_dir))}:
        assert time.monotonic() < limit, "still live"
        try:
            actor = ray.get_actor(where.actor_name, namespace=runtime.place.namespace)
            ray.get(actor.passivate.options(max_task_retries=0).remote(0.0), timeout=20)
        except (ray.exceptions.ActorDiedError, ValueError):
            pass
        time.sleep(0.05)
    return where.actor_name


def is_noted(runtime, agent, count):
    records = runtime.conversations(agent)
    return len(records) == count and all(record.outbox_pending == 0 for record in records)


def live_names(runtime):
    return {each.actor_name for each in live_conversations(live_folder(runtime.place.data_dir))}


def test_what_was_said_is_found_in_every_conversation_of_its_contact_and_no_other_is_woken(runtime, name):
    agent = runtime.agent(name, model=ECHO)
    monday = agent.conversation("monday", contact="tg:ines")
    monday.send("My sister is called Quitéria and lives in Évora.")
    stranger = agent.conversation("stranger", contact="tg:rui")
    stranger.send("My sister collects stamps.")
    until_indexed(monday)
    until_indexed(stranger)
    dormant = {passivate(runtime, monday), passivate(runtime, stranger)}
    limit = time.monotonic() + 120
    while not (is_noted(runtime, name, 2) and not live_names(runtime) & dormant):
        assert time.monotonic() < limit  # what the directory knows to be indexed is woken by nobody
        time.sleep(0.2)

    friday = agent.conversation("friday", contact="tg:ines")
    friday.send("I bought a green kayak yesterday.")
    assert texts(friday.recall_conversation("kayak", mode="keyword"))[0] == "I bought a green kayak yesterday."
    recalled = friday.recall_conversation("Where does my sister live?")
    assert (dict(recalled.unanswered), recalled.not_yet_indexed) == ({}, 0)
    best = recalled.hits[0].message
    assert best.text == "My sister is called Quitéria and lives in Évora."
    assert (best.conversation_id, best.contact, best.role, best.seq) == ("monday", "tg:ines", "user", 0)
    assert "stamps" not in " ".join(texts(recalled))
    assert texts(friday.recall_conversation("sister", scope="conversation", mode="keyword")) == []
    assert "My sister collects stamps." in texts(friday.recall_conversation("sister", scope="all"))
    assert {hit.message.role for hit in friday.recall_conversation("noted", role="assistant").hits} == {"assistant"}
    assert "stamps" in texts(stranger.recall_conversation("sister"))[0]
    with pytest.raises(InvalidInputError):
        friday.recall_conversation("sister", mode="fuzzy")
    assert not live_names(runtime) & dormant


def test_a_model_finds_what_was_said_in_another_conversation(runtime, name):
    searching = Rule(
        "sister", (CallTools((("recall_conversation", {"query": "name of the sister"}),)), Say("{result}"))
    )
    agent = runtime.agent(name, model=Script((searching, Rule(None, (Say("Noted."),)))))
    first = agent.conversation("first", contact="mail:ines")
    first.send("Her name is Quitéria.")
    until_indexed(first)
    reply = agent.conversation("second", contact="mail:ines").send("What is my sister called?")
    assert "user: Her name is Quitéria." in reply.text
    assert "conversation first" in reply.text


def test_an_agent_without_memory_costs_no_indexing_and_is_indexed_from_its_beginning_once_it_has_one(runtime, name):
    chat = runtime.agent(name, model=ECHO, memory=False).conversation("c")
    chat.send("The code of the gate is 4711.")
    assert chat.inspect().outbox == {}
    with pytest.raises(MemoryDisabledError):
        chat.recall_conversation("gate")
    chat = runtime.agent(name, memory=True).conversation("c")
    chat.send("Good morning.")
    assert texts(chat.recall_conversation("gate", mode="keyword"))[0] == "The code of the gate is 4711."


def test_what_a_killed_memory_process_had_not_indexed_is_indexed_by_the_next(runtime, name):
    import ray

    chat = runtime.agent(name, model=ECHO).conversation("c")
    for number in range(5):
        chat.send(f"Box {number} holds item {number}.")
        os.kill(ray.get(memory_actor(runtime.place).pid.remote(), timeout=30), signal.SIGKILL)
    until_indexed(chat)
    found = texts(chat.recall_conversation("box item", role="user", mode="keyword"))
    assert sorted(found) == [f"Box {number} holds item {number}." for number in range(5)]
    assert chat.inspect().parked == ()
