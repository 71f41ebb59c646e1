"""For tests of your own agents: a scripted model, a clock that you move, and a conversation without Ray.

```python
from perdure.actors.testing import CallTools, InProcessConversation, ManualClock, Rule, Say, Script

script = Script((Rule(None, (CallTools((("search_flights", {"to": "Lisbon"}),)), Say("Found: {result}"))),))
chat = InProcessConversation(tmp_path / "chat.duckdb", model=script, tools=[search_flights])
assert chat.send("A flight to Lisbon, please").text.startswith("Found")
```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ..jobs.chat_model import ChatModel, ToolSpec
from ..jobs.clock import Clock, SystemClock
from ..jobs.context import Context
from ..jobs.conversation import Conversation, ImportedMessage
from ..jobs.embedded_chat import EmbeddedChat
from ..jobs.scripted_chat import CallTools, FailWith, Pause, Rule, Say, Script, ScriptedChat, script_to_name
from ..jobs.tool_runner import CallOrigin, ToolOutcome
from ..jobs.turn import TurnRequest
from ..storage.agent_options import AgentOptions
from ..storage.conversation_store import ConversationStore
from ..storage.records import (
    AgentName,
    ContactId,
    ConversationId,
    ConversationIdentity,
    Reply,
    StoredMessage,
    ToolCall,
    TurnId,
)
from ..storage.settings import Settings
from ..storage.text import check_text, storable_id
from .calls import AgentSnapshot
from .cancellation import CancelFlag
from .client.conversation import checked_messages
from .client.driver_turn import DriverTurn
from .client.events import Event
from .client.lane import run_into
from .client.stream import Told
from .tool_definition import Tool, as_tool, by_name
from .tool_process import run_function

Result = TypeVar("Result")

__all__ = [
    "CallTools",
    "FailWith",
    "InProcessConversation",
    "ManualClock",
    "Pause",
    "Rule",
    "Say",
    "Script",
    "ScriptedChat",
]


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The present, as an aware UTC datetime."""
        return self._now

    def advance(self, by: timedelta | float) -> None:
        """Let time pass: a timedelta, or seconds."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)


class InlineTools:
    """Runs tools here, one after the other; time limits are not enforced."""

    def __init__(self, tools: Sequence[Tool[..., Any]], settings: Settings) -> None:
        self._tools = by_name(tuple(tools))
        self._settings = settings

    def run(self, calls: Sequence[tuple[ToolCall, ToolSpec]], origin: CallOrigin) -> Iterator[Sequence[ToolOutcome]]:
        """See `jobs.tool_runner.ToolRunner`."""
        for call, _ in calls:
            function = self._tools[call.name].function
            yield [run_function(function, call, origin, self._settings.tools.result_chars)]


class InProcessConversation:
    """A conversation on a real file, with the turns, tools and checkpoints of the actor, in this process.

    Its calls are those of `ConversationHandle` and return at once; `timeout_s` is taken and not enforced.
    """

    def __init__(
        self,
        path: Path,
        *,
        model: Script | ChatModel | None = None,
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        system_prompt: str = "",
        contact: str | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._path = path
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._model = ScriptedChat() if isinstance(model, Script) else model or EmbeddedChat()
        self._contact = None if contact is None else ContactId(storable_id(contact, "contact"))
        wrapped = tuple(as_tool(entry) for entry in tools)
        self._tools = InlineTools(wrapped, self._settings)
        options = AgentOptions(
            model=script_to_name(model) if isinstance(model, Script) else None,
            system_prompt=system_prompt,
            tools=tuple(entry.record for entry in wrapped),
        )
        self._agent = AgentSnapshot(name=AgentName("agent"), agent_id=str(uuid4()), version=1, options=options)
        self._open()

    def send(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> Reply:
        """As `ConversationHandle.send`."""
        del timeout_s
        return self._conversation.send(self._request(text, turn_id))

    def stream(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> Iterator[Event]:
        """As `ConversationHandle.stream`; the turn runs to its end before the first event is given."""
        del timeout_s
        told = Told()
        turn_events = list(self._conversation.stream(self._request(text, turn_id)))
        return iter([event for turn_event in turn_events for event in told.tell(turn_event)])

    def begin_turn(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> DriverTurn:
        """As `ConversationHandle.begin_turn`."""
        del timeout_s
        return DriverTurn(self, self._conversation.driver_turns.begin(self._request(text, turn_id)))

    def import_messages(self, messages: Iterable[ImportedMessage | Mapping[str, Any]]) -> int:
        """As `ConversationHandle.import_messages`."""
        return self._conversation.import_messages(checked_messages(messages, self._settings.turn.max_text_chars))

    def history(self, limit: int = 100) -> Sequence[StoredMessage]:
        """The newest messages, oldest of them first."""
        return self._store.page_before(None, limit)

    def context(self, text: str = "…") -> Context:
        """As `ConversationHandle.context`."""
        return self._conversation.context(self._agent.profile, text)

    def notes(self) -> str:
        """The working notes."""
        return self._store.working_state().notes

    def restart(self) -> None:
        """Go on as a new process would: from the file alone."""
        self._store.close()
        self._open()

    def close(self) -> None:
        """Release the file."""
        self._store.close()

    def call(self, method: str, *arguments: Any, timeout_s: float | None, turn_id: str | None = None) -> Any:
        """What a `DriverTurn` asks for, by the names of the actor's methods."""
        del timeout_s, turn_id
        turns = self._conversation.driver_turns
        if method == "view_turn":
            return turns.view(arguments[0], self._agent.profile)
        steps: dict[str, Callable[..., Any]] = {
            "record_tool_round": turns.record_tool_round,
            "finish_turn": turns.finish,
            "abandon_turn": turns.abandon,
        }
        return steps[method](*arguments)

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:  # noqa: ARG002 - the protocol's
        future: Future[Result] = Future()
        run_into(future, body, time.monotonic())
        return future

    def _open(self) -> None:
        identity = ConversationIdentity(
            agent=self._agent.name, conversation_id=ConversationId("conversation"), contact=self._contact
        )
        self._store = ConversationStore.open(self._path, identity, self._clock.now())
        self._conversation = Conversation(
            self._store, self._model, self._tools, self._clock, self._settings, CancelFlag()
        )

    def _request(self, text: str, turn_id: str | None) -> TurnRequest:
        return TurnRequest(
            turn_id=TurnId(uuid4().hex if turn_id is None else storable_id(turn_id, "turn_id")),
            text=check_text(text, "text", self._settings.turn.max_text_chars),
            agent=self._agent.profile,
        )
