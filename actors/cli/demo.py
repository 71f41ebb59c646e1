"""`perdure demo`: the promises of the README, kept before your eyes, or the command fails."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ...storage.errors import PerdureError
from ...storage.liveness import is_running
from ...storage.records import Reply, StoredMessage
from ..client.conversation import ConversationHandle
from ..client.runtime import Runtime, connect
from .demo_memory import CORRECTED, FIRST, SECOND, TOLD, MemoryStory
from .demo_memory import QUESTION as QUESTION_OF_MEMORY
from .demo_tools import ANSWER, CALLS, NOTES, REQUEST, effects, trip_script, trip_tools

WAIT_S = 60.0
"""For each turn; a demonstration that takes longer has failed."""
SAID = ("My name is Ana and I love TypeScript", "On 12 March I fly to Lisbon for a conference")
QUESTION = "What is my name and what do I love?"


class ClaimNotHeldError(PerdureError):
    """Something that the demonstration claims turned out not to be so."""

    def __init__(self, claim: str, found: str) -> None:
        super().__init__(claim, found)
        self.claim = claim
        self.found = found

    def __str__(self) -> str:
        return f"the demonstration failed: it claims that {self.claim}, and found {self.found}"


def run_demo(data_dir: Path | None, console: Console) -> None:
    """Run it, in a new temporary directory unless one is given.

    Raises:
        ClaimNotHeldError: A claim does not hold.
    """
    started = time.monotonic()
    folder = data_dir if data_dir is not None else Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    demo = _Demo(folder=folder, run=uuid4().hex[:8], narrator=_Narrator(console))
    demo.narrator.say(f"This needs no key and no network. The data directory is {folder}.")
    before = demo.first_life()
    demo.second_life(before)
    demo.farewell(time.monotonic() - started)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What has to be there again after the restart."""

    talk: list[StoredMessage]
    trip: list[StoredMessage]
    notes: str
    reply: Reply
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demo:
    folder: Path
    run: str
    """Names what this run makes, so that a data directory may serve several."""
    narrator: _Narrator

    def first_life(self) -> _Kept:
        """Everything up to the end of the first runtime."""
        narrator = self.narrator
        narrator.step("Start a runtime")
        began = time.monotonic()
        with connect(self.folder) as runtime:
            narrator.say(f"It runs on a Ray of its own, started in {time.monotonic() - began:.1f} s.")
            talk = self._talk(runtime)
            trip, reply = self._trip(runtime)
            self._repeat(trip, reply)
            self._remember(runtime)
            return _Kept(
                talk=list(talk.history()),
                trip=list(trip.history()),
                notes=trip.notes(),
                reply=reply,
                pid=trip.inspect().pid,
            )

    def second_life(self, before: _Kept) -> None:
        """A new runtime on the same directory."""
        narrator = self.narrator
        narrator.step("Restart everything")
        narrator.say("The runtime is closed, and its Ray has ended with all processes.")
        narrator.claim(
            f"process {before.pid}, which held the conversation, is gone",
            _wait_until(lambda: not is_running(before.pid)),
            "it still runs",
        )
        began = time.monotonic()
        with connect(self.folder) as runtime:
            narrator.say(f"A new runtime on the same directory: {time.monotonic() - began:.1f} s.")
            talk, trip = self._talk_handle(runtime), runtime.agent(self._trip_agent).conversation(self._trip_id)
            for name, chat, expected in (("talk", talk, before.talk), ("trip", trip, before.trip)):
                found = list(chat.history())
                narrator.claim(
                    f"the {name}'s {len(expected)} messages are there as they were",
                    found == expected,
                    f"{len(found)} messages",
                )
            notes = trip.notes()
            narrator.claim("so are the working notes", notes == before.notes == NOTES, repr(notes))
            again = trip.send(REQUEST, turn_id=self._turn_id, timeout_s=WAIT_S)
            narrator.claim("the repeated turn still gives the stored reply", again == before.reply, repr(again))
            self._claim_effects("and still no tool has run again")
            answer = MemoryStory(runtime, self.run, WAIT_S).ask("later")
            narrator.claim("it still knows where Ana lives", SECOND in answer and FIRST not in answer, repr(answer))

    def farewell(self, took_s: float) -> None:
        """Where the files are, and what to do next."""
        narrator = self.narrator
        narrator.step("That was it")
        narrator.say(f"It took {took_s:.0f} s. One file for each conversation, and one that knows them all:")
        for file in sorted(self.folder.rglob("*.duckdb")):
            narrator.say(f"  {file}  {file.stat().st_size / 1024:.0f} KiB")
        narrator.say(f"  {self._log}  the tools' own log")
        narrator.say("Next: read deploy/examples/quickstart.py, or bring in a conversation of your own:")
        narrator.say(f"  perdure --data-dir {shlex.quote(str(self.folder))} replay FILE --agent you")

    def _talk(self, runtime: Runtime) -> ConversationHandle:
        narrator = self.narrator
        narrator.step("Talk to the embedded model")
        narrator.say("It is no language model: it looks for what you said before, and quotes it.")
        talk = self._talk_handle(runtime)
        answer = ""
        for number, text in enumerate((*SAID, QUESTION)):
            answer = talk.send(text, turn_id=f"talk-{number}", timeout_s=WAIT_S).text
            narrator.exchange("Ana", text)
            narrator.exchange("agent", answer)
        narrator.claim("the answer quotes what Ana said", SAID[0] in answer, repr(answer))
        return talk

    def _trip(self, runtime: Runtime) -> tuple[ConversationHandle, Reply]:
        narrator = self.narrator
        narrator.step("kill -9 in the middle of a turn")
        narrator.say("The model of this part is a SCRIPT: what it says and which tools it calls was written down")
        narrator.say("beforehand. The tools, their processes, the files and the kill are real.")
        agent = runtime.agent(self._trip_agent, model=trip_script(), tools=trip_tools(self._log))
        trip = agent.conversation(self._trip_id)
        narrator.exchange("Ana", REQUEST)
        finished: list[str] = []
        killed_pid, killed_at, reply = 0, 0.0, None
        for event in trip.stream(REQUEST, turn_id=self._turn_id, timeout_s=WAIT_S):
            if event.type == "tool_finished":
                finished.append(event.call.name)
                narrator.say(f"tool {event.call.name} {event.status}, and its result is on disk")
                if set(finished) == set(CALLS):
                    killed_pid, killed_at = self._kill(trip), time.monotonic()
            elif event.type == "finished":
                reply = event.reply
        narrator.claim("all tools finished and the turn ended", bool(killed_pid and reply), f"{finished}")
        assert reply is not None
        narrator.exchange("agent", reply.text)
        pid = trip.inspect().pid
        narrator.say(f"Process {pid} gave that answer, {time.monotonic() - killed_at:.1f} s after the kill.")
        narrator.claim("another process took over", pid != killed_pid, f"process {pid} again")
        narrator.claim("the reply says that its turn was resumed", reply.resumed, "resumed=False")
        narrator.claim("it is the whole answer", reply.text.endswith(ANSWER), repr(reply.text))
        statuses = [(call.name, call.status) for call in reply.tool_calls]
        are_done = statuses == [(name, "succeeded") for name in CALLS]
        narrator.claim(f"its {len(statuses)} tool calls all succeeded", are_done, f"{statuses}")
        self._claim_effects("by the tools' own log, each ran exactly once")
        return trip, reply

    def _kill(self, trip: ConversationHandle) -> int:
        pid = trip.inspect().pid
        self.narrator.say(f"The model thinks. Now: kill -9 {pid}, the conversation's process.")
        os.kill(pid, signal.SIGKILL)
        return pid

    def _repeat(self, trip: ConversationHandle, reply: Reply) -> None:
        narrator = self.narrator
        narrator.step("Send the same turn again")
        narrator.say("As a driver does that never saw the reply: the same text under the same turn id.")
        began = time.monotonic()
        again = trip.send(REQUEST, turn_id=self._turn_id, timeout_s=WAIT_S)
        narrator.say(f"The answer came in {(time.monotonic() - began) * 1000:.0f} ms.")
        narrator.claim("it is the stored reply", again == reply, repr(again))
        self._claim_effects("and no tool ran")

    def _remember(self, runtime: Runtime) -> None:
        narrator = self.narrator
        narrator.step("Remember beyond a conversation")
        narrator.say(
            "The model that is told is a SCRIPT, which calls the tool `remember`; the one that is asked is the"
        )
        narrator.say("embedded one, each time in a new conversation. Memory, its indexes and the search are real.")
        story = MemoryStory(runtime, self.run, WAIT_S)
        for tell, ask, text, known in (("monday", "tuesday", TOLD, FIRST), ("friday", "sunday", CORRECTED, SECOND)):
            narrator.exchange("Ana", text)
            narrator.exchange("agent", story.tell(tell, text))
            answer = story.ask(ask)
            narrator.exchange("Ana", QUESTION_OF_MEMORY)
            narrator.exchange("agent", answer)
            narrator.claim("another conversation knows it", known in answer, repr(answer))
        found = story.found()
        narrator.claim("what was replaced is found no more", SECOND in found and FIRST not in found, f"{found}")
        history = story.history()
        narrator.claim("and its history is kept", history == [FIRST, SECOND], f"{history}")

    def _claim_effects(self, claim: str) -> None:
        ran = effects(self._log)
        self.narrator.claim(f"{claim}: {', '.join(ran)}", ran == ["search_flights", "hold_seat"], f"{ran}")

    def _talk_handle(self, runtime: Runtime) -> ConversationHandle:
        return runtime.agent("demo-embedded").conversation(f"talk-{self.run}", contact="demo:ana")

    @property
    def _trip_agent(self) -> str:
        return "demo-scripted"

    @property
    def _trip_id(self) -> str:
        return f"trip-{self.run}"

    @property
    def _turn_id(self) -> str:
        return f"book-{self.run}"

    @property
    def _log(self) -> Path:
        return self.folder.absolute() / f"tools-of-{self._trip_id}.log"


class _Narrator:
    """Says what happens, step by step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps = 0

    def step(self, title: str) -> None:
        self._steps += 1
        self._console.print()
        self._console.print(Text(f"{self._steps}. {title}", style="bold"))

    def say(self, text: str) -> None:
        self._indented(Text(text))

    def exchange(self, who: str, text: str) -> None:
        for number, line in enumerate(text.splitlines()):
            self._indented(Text.assemble((f"{who if number == 0 else '':>6}  ", "cyan"), line) if line else Text())

    def claim(self, claim: str, holds: bool, found: str) -> None:
        if not holds:
            raise ClaimNotHeldError(claim, found)
        self._indented(Text.assemble(("    ok  ", "green"), claim))

    def _indented(self, text: Text) -> None:
        if not text:
            self._console.print()
        elif self._console.is_terminal:
            self._console.print(Padding(text, (0, 0, 0, 3)))
        else:
            self._console.print(Text("   ").append_text(text))


def _wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    limit = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < limit:
        time.sleep(0.05)
    return condition()
