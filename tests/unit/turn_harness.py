"""A conversation without Ray whose process can be killed at a fault point: real store, made-up model and tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perdure.jobs.chat_model import ChatReply, ChatRequest, ToolSpec
from perdure.jobs.conversation import Conversation
from perdure.jobs.tool_runner import CallOrigin, ToolOutcome
from perdure.jobs.turn import AgentProfile, Cancelled, TurnRequest
from perdure.jobs.turn_events import TurnEvent, TurnFinished
from perdure.jobs.turn_memory import TurnMemory
from perdure.storage import fault_points
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.records import (
    AgentName,
    CallId,
    ContactId,
    ConversationId,
    ConversationIdentity,
    Reply,
    ToolCall,
    TurnId,
    Usage,
)
from perdure.storage.settings import Settings


class ProcessDied(BaseException):
    """Stands for SIGKILL: nothing in the code under test may catch it."""


@dataclass
class ManualClock:
    time: datetime = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def pass_s(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class ScriptedModel:
    """Answers by what stands after the newest input: so many assistant messages, so far the script."""

    steps: Sequence[ChatReply | Exception]
    requests: list[ChatRequest] = field(default_factory=list)

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        newest = max(place for place, message in enumerate(request.messages) if message.role == "user")
        done = sum(message.role == "assistant" for message in request.messages[newest:])
        step = self.steps[min(done, len(self.steps) - 1)]
        if isinstance(step, Exception):
            raise step
        return step

    def stream(self, request: ChatRequest) -> Iterator[str | ChatReply]:
        reply = self.complete(request)
        for start in range(0, len(reply.text), 4):
            yield reply.text[start : start + 4]
        yield reply


@dataclass
class LoggingTools:
    """Runs calls here, one result at a time, and keeps a log of effects that survives every death."""

    effects: list[tuple[str, str]] = field(default_factory=list)
    sessions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    before_effect: Callable[[ToolCall], None] = lambda call: None

    def run(self, calls: Sequence[tuple[ToolCall, ToolSpec]], origin: CallOrigin) -> Iterator[Sequence[ToolOutcome]]:
        fault_points.fault_point("tools.started")
        for call, _ in calls:
            self.before_effect(call)
            self.effects.append((origin.turn_id, call.call_id))
            yield [
                ToolOutcome(
                    call_id=call.call_id,
                    status="succeeded",
                    content=f"result of {call.call_id}",
                    sessions_opened=self.sessions.get(call.call_id, ()),
                )
            ]


@dataclass
class CancelAt:
    """Cancels a turn on its n-th check."""

    checks_left: int = -1

    def check(self, turn_id: TurnId) -> None:
        self.checks_left -= 1
        if self.checks_left == 0:
            raise Cancelled


def says(text: str) -> ChatReply:
    return ChatReply(text=text, usage=Usage(prompt_tokens=10, completion_tokens=2, model_calls=1))


def calls(*ids: str, tool: str = "book", text: str = "") -> ChatReply:
    return ChatReply(
        text=text,
        tool_calls=tuple(ToolCall(call_id=CallId(i), name=tool, arguments=json.dumps({"of": i})) for i in ids),
        usage=Usage(prompt_tokens=10, completion_tokens=2, model_calls=1),
    )


BOOK = ToolSpec(name="book", description="Books.", parameters={"type": "object"})
LOOK = ToolSpec(name="look", description="Looks.", parameters={"type": "object"}, idempotent=True)


class Harness:
    """One conversation through any number of processes."""

    def __init__(
        self,
        path: Path,
        steps: Sequence[ChatReply | Exception],
        settings: Settings | None = None,
        memory: TurnMemory | None = None,
        contact: str | None = None,
    ) -> None:
        self.memory = memory
        self.contact = None if contact is None else ContactId(contact)
        self.path = path / "conversation.duckdb"
        self.clock = ManualClock()
        self.model = ScriptedModel(steps)
        self.tools = LoggingTools()
        self.cancellation = CancelAt()
        self.settings = settings or Settings()
        self.agent = AgentProfile(name="agent", tools=(BOOK, LOOK), system_prompt="Be brief.")
        self.start()

    def start(self) -> None:
        """A new process on the same file."""
        self.store = ConversationStore.open(
            self.path,
            ConversationIdentity(agent=AgentName("agent"), conversation_id=ConversationId("c"), contact=self.contact),
            self.clock.now(),
        )
        self.conversation = Conversation(
            self.store, self.model, self.tools, self.clock, self.settings, self.cancellation, self.memory
        )

    def restart(self) -> None:
        self.store.close()
        self.start()

    def request(self, turn_id: str, text: str) -> TurnRequest:
        return TurnRequest(turn_id=TurnId(turn_id), text=text, agent=self.agent)

    def send(self, turn_id: str = "t", text: str = "Book it") -> Reply:
        return self.conversation.send(self.request(turn_id, text))

    def events(self, turn_id: str = "t", text: str = "Book it") -> list[TurnEvent]:
        return list(self.conversation.stream(self.request(turn_id, text)))

    def streamed(self, turn_id: str = "t", text: str = "Book it") -> Reply:
        last = self.events(turn_id, text)[-1]
        assert isinstance(last, TurnFinished)
        return last.reply

    def history(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.store.page_before(None, 1000)]


def kill_at(monkeypatch, point: str, passing: int = 1) -> list[str]:
    """Die at the n-th passing of a fault point; the list fills with the points passed."""
    passed: list[str] = []

    def fault_point(name: str) -> None:
        passed.append(name)
        if name == point and passed.count(name) == passing:
            raise ProcessDied

    _patch(monkeypatch, fault_point)
    return passed


def kill_never(monkeypatch) -> list[str]:
    return kill_at(monkeypatch, "")


def _patch(monkeypatch, replacement: Callable[[str], None]) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("perdure.") and getattr(module, "fault_point", None) is not None:
            monkeypatch.setattr(module, "fault_point", replacement)
