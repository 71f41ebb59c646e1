"""`perdure chat`: a conversation at a terminal, or turns from a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from ...storage.errors import HostError, PerdureError, RuntimeClosedError
from ...storage.records import Reply
from ..client.agent import DEFAULT_CONVERSATION
from ..client.conversation import ConversationHandle
from ..client.events import Event
from ..client.runtime import UNSET, connect
from ..client.stream import TurnStream
from .known import chosen_dir
from .output import Output, amount, one_line, printable
from .show import one_line_of_call
from .timeline import Entry, entries

SHOWN_MESSAGES = 20
"""Of the history, at the beginning."""
SHOWN_CHARS = 1_000
PROMPT = "you> "
ANSWER = "agent> "
QUIT, RETRY = "/quit", "/retry"
STOPPED = 130
LOOK_S = 5.0
LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """Which conversation to open; agent and conversation are made if they are new."""

    agent: str
    conversation: str | None = None
    contact: str | None = None
    model: str | None = None
    data_dir: Path | None = None


def run_chat(request: ChatRequest, output: Output) -> int:
    """Open the conversation and talk until the input ends; the command's exit status."""
    is_interactive = sys.stdin.isatty() and not output.as_json
    with connect(chosen_dir(request.data_dir)) as runtime:
        agent = runtime.agent(request.agent, model=UNSET if request.model is None else request.model)
        chat = agent.conversation(request.conversation or DEFAULT_CONVERSATION, request.contact)
        if is_interactive:
            return Talk(chat, output, _ask_at_terminal()).run()
        return answer_lines(chat, (line.rstrip("\r\n") for line in sys.stdin), output)


def answer_lines(chat: ConversationHandle, lines: Iterator[str], output: Output) -> int:
    """Send each line that is not blank as a turn, and print the replies only; errors go to standard error."""
    status = 0
    try:
        for line in lines:
            if not line.strip():
                continue
            try:
                reply = chat.send(line)
            except (HostError, RuntimeClosedError):
                raise
            except PerdureError as error:
                status = 1
                Output.complain(str(error))
            else:
                _print_reply(reply, output)
    except KeyboardInterrupt:
        Output.complain("stopped; a turn that is at work goes on while the runtime does, and is stored")
        return STOPPED
    return status


class Talk:
    """A conversation at a terminal, line by line."""

    def __init__(self, chat: ConversationHandle, output: Output, ask: Callable[[str], str]) -> None:
        """`ask` prompts and gives a line; it raises EOFError at the end."""
        self._chat = chat
        self._output = output
        self._ask = ask
        self._unanswered: tuple[str, str] | None = None
        """Turn id and text of the last turn that raised an error."""
        self._left: TurnStream | None = None
        """The last turn that nobody waits for any more."""
        self._is_in_line = False
        """The last thing printed is a piece of an answer."""

    def run(self) -> int:
        """Talk until /quit, Ctrl-D or Ctrl-C; the command's exit status."""
        self._greet()
        with suppress(EOFError, KeyboardInterrupt):
            while (line := self._ask(PROMPT)).strip() != QUIT:
                if line.strip() == RETRY:
                    self._retry()
                elif line.strip():
                    self._turn(line)
        self._output.line()
        self._say_goodbye()
        return 0

    def _greet(self) -> None:
        agent, contact = self._chat.agent, self._chat.contact
        who = f", contact {one_line(contact)}" if contact else ""
        model = one_line(agent.options.model or "embedded", 60)
        title = f"{one_line(agent.name)} / {one_line(self._chat.conversation_id)}{who}, model {model}"
        self._output.line(title, style="bold")
        messages = self._chat.history(SHOWN_MESSAGES)
        if messages and messages[0].seq > 0:
            self._remark(f"… {amount(messages[0].seq, 'message')} before these")
        for entry in entries(messages):
            self._show(entry)
        self._remark("Ctrl-D or /quit ends it; Ctrl-C stops waiting for a reply")

    def _show(self, entry: Entry) -> None:
        message = entry.message
        if message.role in ("user", "assistant") and message.content:
            who = PROMPT if message.role == "user" else ANSWER
            left_out = "…" if len(message.content) > SHOWN_CHARS else ""
            self._output.line(f"{message.speaker or ''}{who}{message.content[:SHOWN_CHARS]}{left_out}")
        for ran in entry.calls:
            self._tool(f"{one_line(ran.call.name)}: {ran.status}")

    def _retry(self) -> None:
        if self._unanswered is None:
            self._remark("there is no turn to repeat")
        else:
            turn_id, text = self._unanswered
            self._turn(text, turn_id)

    def _turn(self, text: str, turn_id: str | None = None) -> None:
        stream: TurnStream | None = None
        try:
            stream = self._chat.stream(text, turn_id=turn_id)
            self._write("")
            for event in stream:
                self._event(event)
            self._unanswered = None
        except KeyboardInterrupt:
            self._left = stream
            self._remark("Not waiting any more: the turn goes on and is stored.")
        except (HostError, RuntimeClosedError):
            self._end_line()
            raise
        except PerdureError as error:
            self._end_line()
            self._output.line(f"error: {error}", style="red")
            if stream is not None:
                self._unanswered = (stream.turn_id, text)
                self._remark(f"{RETRY} sends it again under the same turn id")

    def _event(self, event: Event) -> None:
        if event.type == "text":
            self._write(printable(event.text))
        elif event.type == "tool_started":
            self._tool(one_line_of_call(event.call))
        elif event.type == "tool_finished":
            self._tool(f"{one_line(event.call.name)} {event.status}: {one_line(event.preview, 100)}")
        elif event.type == "restarted":
            self._remark("(interrupted and continued; the answer begins again)")
        else:
            self._end_line()

    def _tool(self, text: str) -> None:
        self._end_line()
        self._output.line(f"tool {text}", style="dim", indent=2)

    def _remark(self, text: str) -> None:
        self._end_line()
        self._output.line(text, style="dim")

    def _write(self, piece: str) -> None:
        """Print a piece of the answer at once, where the last one ended."""
        if not self._is_in_line:
            piece = f"{ANSWER}{piece}"
            self._is_in_line = True
        self._output.console.print(Text(piece), end="", soft_wrap=True)
        self._output.console.file.flush()

    def _end_line(self) -> None:
        if self._is_in_line:
            self._output.line()
            self._is_in_line = False

    def _say_goodbye(self) -> None:
        """Tell of a turn that nobody waits for any more; one that has not reached its conversation is waited for."""
        limit = time.monotonic() + LOOK_S
        with suppress(PerdureError):  # it is only a remark
            while not (running := self._running_turns()) and self._is_under_way() and time.monotonic() < limit:
                time.sleep(LOOK_AGAIN_S)
            for turn_id in running:
                self._output.line(
                    f"Turn {one_line(turn_id)} is still at work. What it has done is stored; it goes on while"
                    " the runtime does, which `perdure up` keeps."
                )

    def _running_turns(self) -> list[str]:
        return [turn.turn_id for turn in self._chat.inspect(timeout_s=LOOK_S).open_turns if turn.is_running]

    def _is_under_way(self) -> bool:
        return self._left is not None and not self._left.has_ended()


def _print_reply(reply: Reply, output: Output) -> None:
    if not output.as_json:
        output.answer(reply.text)
    else:
        calls = [{"name": call.name, "arguments": call.arguments, "status": call.status} for call in reply.tool_calls]
        output.json_line({"turn_id": reply.turn_id, "text": reply.text, "tool_calls": calls, "resumed": reply.resumed})


def _ask_at_terminal() -> Callable[[str], str]:
    with suppress(ImportError):
        import readline  # noqa: F401 - gives `input` its line editing
    return input
