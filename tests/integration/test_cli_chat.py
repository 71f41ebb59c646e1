"""`perdure chat`: turns from a pipe, and a conversation at a terminal."""

from __future__ import annotations

import io
import json
import signal
import sys

import pytest
from rich.console import Console

from perdure.actors.cli.chat import Talk
from perdure.actors.cli.output import Output
from perdure.actors.testing import CallTools, FailWith, Pause, Rule, Say, Script

SCRIPT = Script(
    (
        Rule("slow", (Pause(1.5), Say("It took a while."))),
        Rule("fail", (FailWith("no such key", retryable=False, times=1), Say("now it works"))),
        Rule("never", (FailWith("no such key", retryable=False),)),
        Rule("note", (CallTools((("set_context", {"notes": "blue"}),)), Say("Noted."))),
        Rule("colour", (Say("\x1b[31mred\x07"),)),
        Rule(None, (Say("ok"),)),
    )
)


class Terminal(io.StringIO):
    """What a terminal shows; presses Ctrl-C when it shows a certain text."""

    def __init__(self, ctrl_c_at=None):
        super().__init__()
        self._ctrl_c_at = ctrl_c_at

    def write(self, text):
        if self._ctrl_c_at and self._ctrl_c_at in text:
            self._ctrl_c_at = None
            super().write(text)
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


@pytest.fixture
def chat(runtime, name):
    return runtime.agent(name, model=SCRIPT).conversation("c", contact="telegram:1")


def talk(chat, *lines, terminal=None):
    """What a terminal shows when somebody types these lines and then Ctrl-D; an exception among them is raised."""
    given = iter(lines)
    terminal = terminal or Terminal()

    def ask(prompt):
        line = next(given, EOFError)
        if not isinstance(line, str):
            raise line
        terminal.write(f"{prompt}{line}\n")
        return line

    console = Console(file=terminal, width=100, force_terminal=True, color_system=None, highlight=False, markup=False)
    assert Talk(chat, Output(console), ask).run() == 0
    return terminal.getvalue()


@pytest.fixture
def piped(perdure, runtime, name, monkeypatch):
    def run(text, *arguments):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return perdure("chat", "--data-dir", runtime.place.data_dir, "--agent", name, *arguments)

    return run


def test_each_line_of_a_pipe_is_a_turn_and_only_the_replies_are_printed(piped, runtime, name):
    status, output, error = piped("My name is Ana\n\nWhat is my name?", "--conversation", "p", "--contact", "t:1")
    assert (status, error) == (0, "")
    replies = [message.content for message in runtime.agent(name).conversation("p", "t:1").history() if message.seq % 2]
    assert output.splitlines() == replies
    assert 'In message 0 you said: "My name is Ana"' in output


def test_a_line_that_fails_is_told_of_on_standard_error_and_the_next_ones_are_answered(piped, runtime, chat):
    status, output, error = piped("one\nnever\ntwo\n", "--conversation", "c", "--json")
    assert [json.loads(line)["text"] for line in output.splitlines()] == ["ok", "ok"]
    assert status == 1
    assert [("no such key" in line, line.startswith("perdure: ")) for line in error.splitlines()] == [(True, True)]


def test_a_model_that_is_named_is_the_agents_from_now_on(piped, runtime, name):
    piped("hello\n", "--model", "python/nowhere:model")
    assert runtime.agent(name).options.model == "python/nowhere:model"
    piped("hello\n")
    assert runtime.agent(name).options.model == "python/nowhere:model"


def test_a_talk_begins_with_the_history_and_its_tools_in_short(chat):
    chat.send("please note this")
    shown = talk(chat, "hello", "/quit", "not sent")
    assert "you> please note this\n  tool set_context: succeeded\nagent> Noted.\n" in shown
    assert "you> hello\nagent> ok\n" in shown
    assert [message.content for message in chat.history() if message.role == "user"] == ["please note this", "hello"]


def test_tools_are_shown_as_they_run_and_the_answer_after_them(chat):
    lines = talk(chat, "please note this").splitlines()
    place = lines.index('  tool set_context {"notes": "blue"}')
    assert lines[place + 1].startswith("  tool set_context succeeded: ")
    assert lines[place + 2] == "agent> Noted."


def test_ctrl_c_during_a_reply_says_that_the_turn_goes_on_and_it_does(chat):
    shown = talk(chat, "slow", "hello", terminal=Terminal(ctrl_c_at="agent> "))
    assert "the turn goes on and is stored" in shown
    assert "you> hello\nagent> ok" in shown
    assert [message.content for message in chat.history()] == ["slow", "It took a while.", "hello", "ok"]


def test_leaving_in_mid_turn_says_that_it_is_at_work(runtime, name):
    chat = runtime.agent(name, model=Script((Rule(None, (Pause(20.0), Say("done"))),))).conversation("c")
    shown = talk(chat, "hello", KeyboardInterrupt, terminal=Terminal(ctrl_c_at="agent> "))
    assert "is still at work" in shown
    assert chat.inspect().open_turns  # nobody waited for it
    chat.cancel()


def test_leaving_waits_until_the_turn_that_goes_on_has_reached_its_conversation(runtime, name, monkeypatch):
    chat = runtime.agent(name, model=Script((Rule(None, (Pause(20.0), Say("done"))),))).conversation("c")
    before = chat.inspect()
    inspect = chat.inspect
    looks = iter([before, before])
    monkeypatch.setattr(chat, "inspect", lambda timeout_s: next(looks, None) or inspect(timeout_s=timeout_s))
    shown = talk(chat, "hello", KeyboardInterrupt, terminal=Terminal(ctrl_c_at="agent> "))
    assert "is still at work" in shown
    chat.cancel()


def test_an_error_costs_its_turn_only_and_retry_goes_on_with_it(chat):
    shown = talk(chat, "/retry", "fail", "/retry", "hello")
    assert "there is no turn to repeat" in shown
    assert "error: model" in shown and "no such key" in shown
    assert shown.index("no such key") < shown.index("agent> now it works") < shown.index("you> hello\nagent> ok")
    assert [message.content for message in chat.history()] == ["fail", "now it works", "hello", "ok"]


def test_a_reply_gives_the_terminal_no_orders(chat):
    shown = talk(chat, "colour")
    assert "\x1b[31m" not in shown and "\x07" not in shown
    assert "agent> \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}\n" in shown
