"""A restarted actor knows what its predecessor acknowledged.

Sources: Ray's documentation on actor fault tolerance and ray-project/ray#7570 (a restart runs the constructor
again and nothing else; a call may have run although its caller got an error); ray-project/ray#53246 and
ray-project/ray#21909 (kills, out-of-memory kills and lost nodes run no exit hook).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from perdure.actors.testing import CallTools, Rule, Say, Script

from ..integration import tools
from ..integration.tools import effects


def script(*steps) -> Script:
    return Script((Rule(None, tuple(steps)),))


def test_a_kill_between_commit_and_reply_gives_the_same_turn_once(runtime, fault_dir: Path, name, tmp_path):
    log = str(tmp_path / "log")
    model = script(CallTools((("book", {"log": log, "what": "x"}),)), Say("Booked."))
    chat = runtime.agent(name, model=model, tools=[tools.book]).conversation("c")
    chat.history()
    pid = chat.inspect().pid
    (fault_dir / "turn.finished").touch()
    reply = chat.send("Book it", turn_id="t", timeout_s=60)
    assert chat.inspect().pid != pid
    assert reply.text == "Booked."
    assert chat.send("Book it", turn_id="t") == reply
    assert [message.role for message in chat.history()] == ["user", "assistant", "tool", "assistant"]
    assert len(effects(tmp_path / "log")) == 1


@pytest.mark.parametrize("how", ["sigkill", "ray.kill", "dropped handle"])
def test_what_was_acknowledged_survives_every_way_to_lose_the_process(runtime, name, how):
    import ray

    from perdure.actors.placement import ConversationPlace
    from perdure.storage.records import ConversationId

    agent = runtime.agent(name, model=script(Say("ok")))
    chat = agent.conversation("c")
    replies = [chat.send(f"m{i}", turn_id=f"m{i}") for i in range(3)]
    chat.set_context("kept")
    pid = chat.inspect().pid
    if how == "sigkill":
        os.kill(pid, signal.SIGKILL)
    elif how == "ray.kill":
        where = ConversationPlace(agent=agent.name, conversation_id=ConversationId("c"), contact=None)
        ray.kill(ray.get_actor(where.actor_name, namespace=runtime.place.namespace))
    else:
        del chat
        chat = agent.conversation("c")
    assert [chat.send(f"m{i}", turn_id=f"m{i}") for i in range(3)] == replies
    assert chat.notes() == "kept"
    assert len(chat.history()) == 6
    assert (chat.inspect().pid == pid) == (how == "dropped handle")


def test_a_message_that_kills_its_process_every_time_ends_as_failed(runtime, fault_dir: Path, name):
    from perdure.storage.errors import TurnFailedError

    chat = runtime.agent(name, model=script(Say("ok"))).conversation("c")
    chat.history()
    poison = chat.send.pending("poison", turn_id="t", timeout_s=90)
    for _ in range(3):
        armed = fault_dir / "turn.context_built"
        armed.touch()
        while armed.exists() and not poison.done():
            pass
    with pytest.raises(TurnFailedError, match="died 3 times"):
        poison.result(60)
    (fault_dir / "turn.context_built").unlink(missing_ok=True)
    with pytest.raises(TurnFailedError, match="died 3 times"):
        chat.send("poison", turn_id="t")
    assert chat.send("hello").text == "ok"
