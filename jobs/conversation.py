"""A conversation: its store, and all that can be asked of it. Plain Python; the actor is a shell around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ..storage.errors import InvalidInputError
from ..storage.records import Message, MessageId, Reply, Role, TurnId, WorkingState
from ..storage.settings import Settings
from ..storage.text import clean_text
from ..storage.tokens import estimate_message_tokens
from . import working_tools
from .chat_model import ChatModel
from .clock import Clock
from .context import Context, build_context, gather_history
from .driver_turn import DriverTurns
from .tool_runner import ToolRunner
from .turn import AgentProfile, Cancellation, TurnExecutor, TurnRequest
from .turn_events import TurnEvent, TurnFinished
from .turn_memory import TurnMemory, recalled_for
from .turn_rows import TURN_MESSAGE
from .turn_store import TurnStore

IMPORTED = "imported:"
REMEMBERED_CHANGES = 32
"""How many ids of changes to the working state are kept to recognise repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMessage:
    """A message of older history."""

    role: Role
    text: str
    created_at: datetime
    """When it was said; a time without a zone is taken as UTC."""
    speaker: str | None = None
    message_id: str | None = None
    """None: made of the content, so that importing the same again stores nothing twice."""


class Conversation:
    """One conversation. Its calls come one at a time; each is durable on return and may be repeated."""

    def __init__(
        self,
        store: TurnStore,
        model: ChatModel,
        tools: ToolRunner,
        clock: Clock,
        settings: Settings,
        cancellation: Cancellation,
        memory: TurnMemory | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._memory = memory
        self._executor = TurnExecutor(store, model, tools, clock, settings, cancellation, memory)
        self.driver_turns = DriverTurns(store, clock, settings, memory)

    def stream(self, request: TurnRequest) -> Iterator[TurnEvent]:
        """Execute a turn and tell its events, the text in pieces; see `TurnExecutor.run`."""
        return self._executor.run(request, streaming=True)

    def send(self, request: TurnRequest) -> Reply:
        """Execute a turn; see `TurnExecutor.run`."""
        for event in self._executor.run(request, streaming=False):
            if isinstance(event, TurnFinished):
                return event.reply
        raise AssertionError("a turn ends with its reply or raises")

    def abandon_open_turns(self) -> Sequence[TurnId]:
        """Give up every turn that is open; what they did stays in the history."""
        given_up = [turn.turn_id for turn in self._store.open_turns()]
        for turn_id in given_up:
            self.driver_turns.abandon(turn_id)
        return given_up

    def import_messages(self, messages: Sequence[ImportedMessage]) -> int:
        """Append older history, dated as given, in one commit; returns how many were new. No model runs.

        Raises:
            MessageConflictError: An id is taken by a message with other content. Nothing was written.
        """
        return self._store.append_messages(messages=[_imported(message) for message in identified(messages)])

    def context(self, agent: AgentProfile, text: str) -> Context:
        """What the model would see if this message were sent now."""
        cleaned = clean_text(text)
        return build_context(
            system_prompt=agent.system_prompt,
            working_state=self._store.working_state(),
            history=gather_history(self._store, self._settings.context, turn_id=None),
            text=cleaned,
            rounds=(),
            contents={},
            resumed=None,
            recalled=recalled_for(self._memory, agent.memory_id, self._store.identity.contact, cleaned),
            settings=self._settings,
        )

    def set_context(self, notes: str, mode: str, change_id: str) -> WorkingState:
        """Change the working notes; a change of the same id is made once."""
        return self._change(change_id, lambda state: working_tools.set_context(state, notes, mode))

    def set_ongoing_task(self, task: str, change_id: str) -> WorkingState:
        """Set the ongoing task; a change of the same id is made once."""
        return self._change(change_id, lambda state: working_tools.set_ongoing_task(state, task))

    def clear_ongoing_task(self, change_id: str) -> WorkingState:
        """Clear the ongoing task; a change of the same id is made once."""
        return self._change(change_id, working_tools.clear_ongoing_task)

    def _change(self, change_id: str, change: Callable[[WorkingState], WorkingState]) -> WorkingState:
        state = self._store.working_state()
        if change_id in state.recent_changes:
            return state
        recent = (*state.recent_changes, change_id)[-REMEMBERED_CHANGES:]
        changed = replace(change(state), recent_changes=recent)
        self._store.set_working_state(working_state=changed)
        return changed


def identified(messages: Sequence[ImportedMessage]) -> Sequence[ImportedMessage]:
    """The messages, those without an id given one made of their content; equal ones are messages of their own."""
    seen: dict[str, int] = {}
    return [message if message.message_id is not None else _with_id(message, seen) for message in messages]


def _with_id(message: ImportedMessage, seen: dict[str, int]) -> ImportedMessage:
    at = _in_utc(message.created_at).isoformat()
    content = "\0".join((message.role, message.speaker or "", at, clean_text(message.text)))
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[digest] = seen.get(digest, 0) + 1
    return replace(message, message_id=f"imported-{digest}-{seen[digest]}")


def _imported(message: ImportedMessage) -> Message:
    if message.role == "tool":
        raise InvalidInputError("role", "'tool' cannot be imported", "import system, user and assistant messages")
    text = clean_text(message.text)
    return Message(
        message_id=_imported_id(message.message_id or ""),
        role=message.role,
        content=text,
        speaker=clean_text(message.speaker) if message.speaker else None,
        tokens=estimate_message_tokens(text),
        created_at=_in_utc(message.created_at),
    )


def _imported_id(given: str) -> MessageId:
    """The id itself, unless it looks like a turn's own message's."""
    return MessageId(f"{IMPORTED}{given}" if given.startswith((TURN_MESSAGE, IMPORTED)) else given)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
