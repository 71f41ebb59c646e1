"""Turns through Ray: driver, conversation actor, models pool, tools in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from perdure.actors import ToolContext, tool
from perdure.actors.client.runtime import _CODE
from perdure.actors.testing import CallTools, FailWith, Pause, Rule, Say, Script
from perdure.storage.errors import (
    CallTimeoutError,
    ContactMismatchError,
    InvalidInputError,
    ModelError,
    TurnAbandonedError,
    TurnConflictError,
    TurnInProgressError,
    TurnNotOpenError,
)

from . import tools
from .tools import effects


def script(*steps) -> Script:
    return Script((Rule(None, tuple(steps)),))


def test_a_driver_sends_turns_and_the_embedded_model_answers_from_the_conversation(runtime, name):
    chat = runtime.agent(name).conversation("support-42", contact="telegram:1234")
    chat.send("My name is Ana and I love TypeScript", turn_id="msg-1", timeout_s=60)
    reply = chat.send("What is my name?", turn_id="msg-2", timeout_s=60)
    assert "My name is Ana" in reply.text
    assert reply.turn_id == "msg-2"
    assert [message.role for message in chat.history()] == ["user", "assistant"] * 2


def test_a_turn_uses_tools_in_other_processes_and_their_results_are_in_the_history(runtime, name, tmp_path):
    log = str(tmp_path / "log")
    calls = CallTools((("book", {"log": log, "what": "table"}), ("look", {"log": log, "what": "menu"})))
    agent = runtime.agent(name, model=script(calls, Say("Done: {result}")), tools=[tools.book, tools.look])
    reply = agent.conversation("c").send("Book a table", turn_id="t")
    assert reply.text.startswith("Done: ")
    assert [(call.name, call.status) for call in reply.tool_calls] == [
        ("book", "succeeded"),
        ("look", "succeeded"),
    ]
    assert sorted(line.split()[2] for line in effects(tmp_path / "log")) == ["menu", "table"]
    assert [message.role for message in agent.conversation("c").history()] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]


def test_calls_of_a_round_run_side_by_side(runtime, name, tmp_path):
    calls = CallTools(tuple(("meet", {"folder": str(tmp_path), "who": who, "count": 4}) for who in "abcd"))
    agent = runtime.agent(name, model=script(calls, Say("ok")), tools=[tools.meet])
    reply = agent.conversation("c").send("go", timeout_s=100)
    assert [call.status for call in reply.tool_calls] == ["succeeded"] * 4


def test_a_conversation_killed_in_the_middle_of_a_turn_answers_and_no_finished_tool_runs_again(runtime, name, tmp_path):
    log = str(tmp_path / "log")
    model = script(CallTools((("book", {"log": log, "what": "flight"}),)), Pause(2.0), Say("Booked."))
    chat = runtime.agent(name, model=model, tools=[tools.book]).conversation("c")
    pending = chat.send.pending("Book it", turn_id="t", timeout_s=60)
    wait_for(lambda: effects(tmp_path / "log"))
    wait_for(lambda: chat.inspect().open_turns and chat.inspect().open_turns[0].tool_rounds == 1)
    time.sleep(0.5)
    pid = chat.inspect().pid
    os.kill(pid, signal.SIGKILL)
    reply = pending.result(60)
    assert (reply.text, reply.resumed) == ("Booked.", True)
    assert len(effects(tmp_path / "log")) == 1
    assert chat.inspect().pid != pid  # guards the test: a restart really happened
    assert chat.send("Book it", turn_id="t") == reply


def test_a_streamed_turn_tells_text_tools_and_the_reply(runtime, name, tmp_path):
    log = str(tmp_path / "log")
    model = script(
        CallTools((("book", {"log": log, "what": "x"}),), text="Let me see."),
        Say("It is all booked for you now."),
    )
    chat = runtime.agent(name, model=model, tools=[tools.book]).conversation("c")
    events = list(chat.stream("Book", turn_id="t"))
    kinds = [event.type for event in events]
    assert kinds[-1] == "finished"
    assert kinds.index("tool_started") < kinds.index("tool_finished")
    assert kinds.count("text") > 2
    assert "".join(event.text for event in events if event.type == "text") == events[-1].reply.text
    assert events[-1].reply.text == "Let me see.\n\nIt is all booked for you now."


def test_a_streamed_turn_survives_a_kill_and_its_text_is_the_stored_reply(runtime, name, tmp_path):
    log = str(tmp_path / "log")
    model = script(
        CallTools((("book", {"log": log, "what": "x"}),), text="Looking."),
        Pause(2.0),
        Say("It is booked now."),
    )
    chat = runtime.agent(name, model=model, tools=[tools.book]).conversation("c")
    told, killed = "", False
    for event in chat.stream("Book", turn_id="t"):
        if event.type == "tool_finished" and not killed:
            os.kill(chat.inspect().pid, signal.SIGKILL)
            killed = True
        if event.type == "restarted":
            told = ""
        if event.type == "text":
            told += event.text
    assert killed
    assert told == event.reply.text == chat.send("Book", turn_id="t").text
    assert len(effects(tmp_path / "log")) == 1


def test_an_abandoned_stream_does_no_harm_and_the_turn_is_stored(runtime, name):
    chat = runtime.agent(name, model=script(Pause(0.5), Say("All the same."))).conversation("c")
    chat.stream("Hello", turn_id="t")
    assert chat.send("Hello", turn_id="t").text == "All the same."


def test_every_call_has_an_awaitable_form(runtime, name):
    async def drive() -> None:
        agent = await runtime.agent.pending(name, model=script(Say("Hi.")))
        chat = await agent.conversation.pending("c")
        reply = await chat.send.pending("Hello")
        assert reply.text == "Hi."
        assert [event.type async for event in chat.stream("Again")][-1] == "finished"
        assert len(await chat.history.pending()) == 4

    asyncio.run(drive())


def test_turns_of_one_driver_execute_in_the_order_they_were_sent(runtime, name):
    chat = runtime.agent(name, model=script(Say("ok"))).conversation("c")
    pending = [chat.send.pending(f"message {i}") for i in range(20)]
    for one in pending:
        one.result(60)
    said = [message.content for message in chat.history() if message.role == "user"]
    assert said == [f"message {i}" for i in range(20)]


def test_repeats_conflicts_and_contacts_are_told_apart(runtime, name):
    agent = runtime.agent(name, model=script(Say("ok")))
    chat = agent.conversation("c", contact="telegram:1")
    reply = chat.send("one", turn_id="t")
    assert chat.send("one", turn_id="t") == reply
    with pytest.raises(TurnConflictError):
        chat.send("two", turn_id="t")
    with pytest.raises(ContactMismatchError, match="telegram:1"):
        agent.conversation("c", contact="telegram:2")
    assert agent.conversation("c").send("three").text == "ok"


def test_a_failing_model_names_the_turn_and_a_repeat_continues_it(runtime, name):
    chat = runtime.agent(name, model=script(FailWith("overloaded", retryable=True, times=1), Say("ok"))).conversation(
        "c"
    )
    with pytest.raises(ModelError, match="same turn_id continues it") as caught:
        chat.send("Hello", turn_id="t")
    assert (caught.value.turn_id, caught.value.retryable) == ("t", True)
    assert chat.send("Hello", turn_id="t").text == "ok"


def test_a_driver_runs_a_loop_of_its_own(runtime, name):
    chat = runtime.agent(name, model=script(Say("no")), system_prompt="Be brief.").conversation("c")
    turn = chat.begin_turn("Book a table", turn_id="mine")
    assert [message["role"] for message in turn.messages] == ["system", "user"]
    with pytest.raises(TurnInProgressError, match="'mine'"):
        chat.send("Me too")
    turn.record_tool_round([{"name": "book", "arguments": {"n": 2}, "result": "table 4", "call_id": "c1"}], text="Hm.")
    assert [message["role"] for message in turn.messages] == ["system", "user", "assistant", "tool"]
    os.kill(chat.inspect().pid, signal.SIGKILL)
    again = chat.begin_turn("Book a table", turn_id="mine")
    assert again.messages == turn.messages
    with pytest.raises(InvalidInputError, match="'c1' is stored already, with another call or result"):
        turn.record_tool_round([{"name": "book", "arguments": {"n": 2}, "result": "table 5", "call_id": "c1"}])
    with pytest.raises(InvalidInputError, match="text"):
        turn.finish(" ")
    reply = turn.finish("Booked")
    with pytest.raises(TurnNotOpenError, match="finished with another reply"):
        turn.finish("Sold out")
    assert (reply.text, turn.finish("Booked")) == ("Hm.\n\nBooked", reply)
    assert chat.begin_turn("Book a table", turn_id="mine").reply == reply
    chat.begin_turn("Never mind", turn_id="given up").abandon()
    with pytest.raises(TurnAbandonedError):
        chat.send("Never mind", turn_id="given up")
    assert chat.send("Go on").text == "no"


def test_cancel_ends_the_running_turn_and_the_next_one_goes_on(runtime, name, tmp_path):
    log = str(tmp_path / "log")
    model = Script(
        (
            Rule("slow", (CallTools((("book", {"log": log, "what": "x", "pause_s": 30}),)), Say("never"))),
            Rule(None, (Say("ok"),)),
        )
    )
    chat = runtime.agent(name, model=model, tools=[tools.book]).conversation("c")
    pending = chat.send.pending("slow", turn_id="t")
    wait_for(lambda: any(turn.is_running and turn.tool_rounds for turn in chat.inspect().open_turns))
    started = time.monotonic()
    assert chat.cancel() == ["t"]
    with pytest.raises(TurnAbandonedError):
        pending.result(30)
    assert time.monotonic() - started < 10
    assert chat.send("next").text == "ok"
    assert [(m.role, m.status) for m in chat.history()][:3] == [
        ("user", None),
        ("assistant", None),
        ("tool", "unknown"),
    ]
    assert effects(tmp_path / "log") == []


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        (tools.raises, "failed", "LookupError: no such flight"),
        (tools.hangs, "timed_out", "killed at its time limit"),
        (tools.returns_much, "succeeded", "characters left out"),
        (tools.prints_binary, "succeeded", "printed"),
        (tools.kills_its_process, "crashed", "process died"),
        (tools.exits, "failed", "SystemExit"),
        (tools.waits_async, "succeeded", "waited"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_whatever_a_tool_does_its_turn_ends_and_tells_it(runtime, name, tmp_path, given, status, told):
    arguments = {"log": str(tmp_path / "log")} if given is tools.hangs else {}
    model = script(CallTools(((given.record.name, arguments),)), Say("So it is."))
    chat = runtime.agent(name, model=model, tools=[given]).conversation("c")
    reply = chat.send("Go", timeout_s=60)
    assert [call.status for call in reply.tool_calls] == [status]
    assert told in next(message.content for message in chat.history() if message.role == "tool")
    assert len(next(m.content for m in chat.history() if m.role == "tool")) <= 3000
    assert effects(tmp_path / "log") == []


def test_a_function_of_a_script_travels_with_the_call_and_is_unavailable_without_its_driver(runtime, name):
    secret = "from the closure"

    @tool
    def local_tool(context: ToolContext, times: int = 1) -> str:
        """Tell."""
        return f"{secret} {context.call_id}" * times

    model = script(CallTools((("local_tool", {"times": 1}),)), Say("{result}"))
    chat = runtime.agent(name, model=model, tools=[local_tool]).conversation("c")
    assert secret in chat.send("Go").text
    assert secret in runtime.agent(name).conversation("again").send("Go").text  # this process knows it
    _CODE.clear()  # as in another process
    revived = runtime.agent(name).conversation("c")
    assert "ToolUnavailableError" in revived.send("Go on").text


def test_notes_and_task_are_kept_and_shown_to_the_model(runtime, name):
    chat = runtime.agent(name, model=script(Say("ok"))).conversation("c")
    assert chat.set_context("prefers mornings") == "prefers mornings"
    assert chat.set_context("vegetarian", "append") == "prefers mornings\nvegetarian"
    chat.set_ongoing_task("plan the trip")
    os.kill(chat.inspect().pid, signal.SIGKILL)
    assert (chat.notes(), chat.get_ongoing_task()) == ("prefers mornings\nvegetarian", "plan the trip")
    shown = "\n".join(message.content for message in chat.context("Hi").messages)
    assert "vegetarian" in shown and "plan the trip" in shown
    chat.clear_ongoing_task()
    assert (chat.set_context("", "clear"), chat.get_ongoing_task()) == ("", None)


def test_imported_history_is_dated_stored_once_and_seen_by_the_model(runtime, name):
    chat = runtime.agent(name).conversation("c")
    older = [
        {
            "role": "user",
            "speaker": "Caroline",
            "text": f"My sister number {i} lives in Porto",
            "created_at": "2023-05-08T13:56:00",
        }
        for i in range(250)
    ]
    assert chat.import_messages(older) == 250
    assert chat.import_messages(older) == 0
    first = chat.history(250)[0]
    assert (first.created_at.year, first.speaker, first.seq) == (2023, "Caroline", 0)
    assert "Porto" in chat.send("Where does my sister live?").text


@pytest.mark.parametrize("text", ["", "  \n\t", None, 7, "x" * 10_000_000])
def test_text_that_cannot_be_sent_is_refused_and_nothing_is_stored(runtime, name, text):
    chat = runtime.agent(name).conversation("c")
    with pytest.raises(InvalidInputError, match="text"):
        chat.send(text)
    assert chat.history() == []


def test_nul_and_lone_surrogates_become_replacement_characters_and_the_turn_is_saved(runtime, name):
    chat = runtime.agent(name, model=script(Say("ok"))).conversation("c")
    chat.send("a\0b \ud83d c 👩‍👩‍👧")
    assert chat.history()[0].content == "a\ufffdb \ufffd c 👩‍👩‍👧"


@pytest.mark.parametrize(
    "identity",
    [
        "../../etc/passwd",
        "a/b",
        ".",
        "..",
        'it\'s "q"',
        "x" * 300,
        "日本語/会話",
        "a\0b",
        "\ud800",
        " ",
        "con\nversation",
    ],
)
def test_every_non_empty_string_is_a_valid_id_and_no_file_leaves_the_data_directory(runtime, name, identity):
    agent = runtime.agent(f"{name}{identity}", model=script(Say("ok")))
    chat = agent.conversation(identity)
    assert chat.send("Hello", turn_id=identity).text == "ok"
    assert chat.send("Hello", turn_id=identity).text == "ok"
    assert len(chat.history()) == 2
    file = chat.inspect().file
    assert os.path.realpath(file).startswith(str(runtime.place.data_dir.resolve()))


@pytest.mark.parametrize("identity", ["", None, 7])
def test_an_id_that_is_no_string_or_empty_is_refused(runtime, name, identity):
    with pytest.raises(InvalidInputError, match="conversation_id"):
        runtime.agent(name).conversation(identity)


def test_a_call_that_gets_no_answer_in_time_says_that_its_turn_may_still_finish(runtime, name):
    chat = runtime.agent(name, model=script(Pause(2), Say("late"))).conversation("c")
    with pytest.raises(CallTimeoutError, match="'t' may still finish"):
        chat.send("Hello", turn_id="t", timeout_s=1)
    assert chat.send("Hello", turn_id="t", timeout_s=30).text == "late"


def test_an_agents_options_are_kept_by_name_and_only_those_given_change(runtime, name):
    first = runtime.agent(name, model=script(Say("one")), system_prompt="Be brief.", tools=[tools.raises])
    again = runtime.agent(name, system_prompt="Be kind.")
    assert (again.id, again.options.model) == (first.id, first.options.model)
    assert again.options.system_prompt == "Be kind."
    assert [record.name for record in again.options.tools] == ["raises"]
    assert again.options.tools[0].reference == "tests.integration.tools:raises"


def test_arguments_of_the_wrong_kind_are_refused_by_name(runtime, name):
    agent = runtime.agent(name, model=script(Say("ok")))
    chat = agent.conversation("c")
    with pytest.raises(InvalidInputError, match="tools: a Tool was given"):
        runtime.agent(name, tools=tools.raises)
    with pytest.raises(InvalidInputError, match="messages: a NoneType was given"):
        chat.import_messages(None)
    for limit in ("5", -1, 0, True):
        with pytest.raises(InvalidInputError, match="timeout_s"):
            chat.send("x", timeout_s=limit)
    assert chat.history() == []


def test_two_threads_and_two_handles_share_a_conversation_without_losing_a_turn(runtime, name):
    agent = runtime.agent(name, model=script(Say("ok")))

    def drive(client: int) -> None:
        chat = agent.conversation("shared")
        for i in range(10):
            chat.send(f"{client}-{i}", turn_id=f"{client}-{i}")

    threads = [threading.Thread(target=drive, args=(client,)) for client in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [m.content for m in agent.conversation("shared").history() if m.role == "user"]
    assert len(said) == 30
    for client in range(3):
        assert [s for s in said if s.startswith(f"{client}-")] == [f"{client}-{i}" for i in range(10)]


def wait_for(condition, timeout_s: float = 30.0):
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")
