"""A conversation, as a driver holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from uuid import uuid4

from ...jobs.context import Context
from ...jobs.conversation import ImportedMessage, identified
from ...jobs.message_query import MessageScope, SearchMode, SpokenRole, asked_from
from ...jobs.outbox import INDEX, label_of
from ...jobs.recalled_messages import RecalledMessages
from ...storage.errors import InvalidInputError, MemoryDisabledError
from ...storage.records import (
    ContactId,
    ConversationId,
    ConversationIdentity,
    Reply,
    StoredMessage,
    TurnId,
    WorkingState,
)
from ...storage.text import check_text, storable_id
from ..calls import Caller, Inspection
from ..placement import ConversationPlace, conversation_actor
from .actor_call import Deadline
from .driver_turn import DriverTurn
from .events import Event
from .memories import Memories
from .pending import ordered_call, unordered_call
from .stream import TurnStream, turn_events

if TYPE_CHECKING:
    from .agent import Agent

Result = TypeVar("Result")
IMPORT_BATCH = 200
"""Messages that are imported in one commit."""
MAX_HISTORY = 10_000
INDEX_WAIT_S = 3.0
"""How long a question waits until what was said last in its conversation can be found, too."""


class ConversationHandle:
    """The way to one conversation. Handles are cheap, may be shared by threads, and outlive the actor.

    Calls wait for their reply; `handle.send.pending(…)` gives a pending reply to `await` instead. Calls of one
    process to one conversation go out one at a time, in order. Every call may meet an actor that dies or
    restarts: it is repeated under the same ids, and takes effect once.
    """

    def __init__(self, agent: Agent, conversation_id: ConversationId, contact: ContactId | None) -> None:
        self.agent = agent
        self.conversation_id = conversation_id
        self.contact = contact
        self._runtime = agent.runtime
        self._caller = Caller(agent=agent.snapshot, contact=contact)
        where = ConversationPlace(agent=agent.name, conversation_id=conversation_id, contact=contact)
        self._link = self._runtime.link(where.actor_name, lambda: conversation_actor(self._runtime.place, where))
        self._lane = self._runtime.lane(where.actor_name)

    def __repr__(self) -> str:
        return f"ConversationHandle(agent={self.agent.name!r}, conversation_id={self.conversation_id!r})"

    @property
    def memories(self) -> Memories:
        """What its agent remembers of its contact, and agent-wide; what is remembered here is the contact's, if any."""
        return Memories(self.agent, self.contact)

    @ordered_call
    def send(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> Reply:
        """Send a message and get the agent's reply; turns of a conversation execute one after the other.

        Args:
            text: The user's message, not blank; NUL and lone surrogates become U+FFFD.
            turn_id: The turn's id, by which it can be repeated: an open turn is continued, a finished one gives
                its stored reply. None makes one.
            timeout_s: How long to wait for the reply; None: `conversations.call_timeout_s`.

        Raises:
            InvalidInputError: The text is blank or too long. Nothing was written.
            TurnConflictError: The id is taken by another message.
            TurnInProgressError: A driver's own turn is open.
            TurnFailedError, TurnAbandonedError: The turn has ended without a reply.
            ModelError: The model gave no answer; the turn is open, and repeating its id continues it.
            CallTimeoutError: No reply in time; the turn may still finish.
            StorageError: The conversation's file cannot be used; other conversations can.
        """
        key, text = self._checked_turn(text, turn_id)
        return cast(Reply, self.call("send", key, text, timeout_s=timeout_s, turn_id=key))

    def stream(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> TurnStream:
        """Send a message and get the turn's events as they come; iterate with `for` or `async for`.

        Arguments and errors as for `send`; errors are raised while iterating.
        """
        key, text = self._checked_turn(text, turn_id)
        stream = TurnStream(key, self._runtime.executor)
        deadline_s = self._runtime.call_timeout_s if timeout_s is None else timeout_s

        def events() -> Iterator[Event]:
            with self._link.gate:
                yield from turn_events(
                    self._link, self._caller, key, text, deadline=Deadline("stream", deadline_s, key)
                )

        stream.run_in(self._lane, events)
        return stream

    @ordered_call
    def begin_turn(self, text: str, *, turn_id: str | None = None, timeout_s: float | None = None) -> DriverTurn:
        """Open a turn for a model loop of your own, or go on with an open one of that id.

        Arguments and errors as for `send`. A finished turn comes back with its `reply`.
        """
        key, text = self._checked_turn(text, turn_id)
        return DriverTurn(self, self.call("begin_turn", key, text, timeout_s=timeout_s, turn_id=key))

    @ordered_call
    def import_messages(
        self, messages: Iterable[ImportedMessage | Mapping[str, Any]], *, timeout_s: float | None = None
    ) -> int:
        """Append older history; no model runs. Returns how many messages this call found to be new.

        Args:
            messages: Records, or mappings with `role`, `text`, `created_at` and optionally `speaker` and `id`.
                They keep their order and their dates. Importing them again stores nothing twice.

        Raises:
            InvalidInputError: A message cannot be used. Nothing was written.
            MessageConflictError: An id is taken by a message with other content.
        """
        every = checked_messages(messages, self._runtime.place.settings.turn.max_text_chars)
        stored = 0
        for start in range(0, len(every), IMPORT_BATCH):
            batch = every[start : start + IMPORT_BATCH]
            stored += cast(int, self.call("import_messages", batch, timeout_s=timeout_s))
        return stored

    @unordered_call
    def history(
        self, limit: int = 100, *, before_seq: int | None = None, timeout_s: float | None = None
    ) -> Sequence[StoredMessage]:
        """The newest messages, oldest of them first; tool rounds of ended turns included.

        Args:
            limit: 1 to 10,000.
            before_seq: Only messages before this place, for paging backwards.
        """
        if not 1 <= limit <= MAX_HISTORY:
            raise InvalidInputError("limit", f"{limit} is out of range", f"give 1 to {MAX_HISTORY:,}")
        return cast("Sequence[StoredMessage]", self._control("history", limit, before_seq, timeout_s=timeout_s))

    @unordered_call
    def recall_conversation(
        self,
        query: str,
        mode: SearchMode = "hybrid",
        limit: int | None = None,
        role: SpokenRole | None = None,
        scope: MessageScope = "contact",
        *,
        timeout_s: float | None = None,
    ) -> RecalledMessages:
        """What was said about something, best first, with who said it, when, and in which conversation.

        What was acknowledged here before is found, too, unless `not_yet_indexed` counts it. No other conversation
        is woken.

        Args:
            query: Any text; nothing in it is an operator.
            mode: By meaning, by words, or by both.
            limit: 1 to 1,000. None: `recall.conversation_limit`.
            role: Only what the user said, or the assistant.
            scope: `contact`: every conversation of this one's contact, on whichever channel; without a contact,
                this one. `conversation`: this one. `all`: every one of the agent, of whomever.

        Raises:
            InvalidInputError: An argument cannot be used.
            MemoryDisabledError: The agent was opened with `memory=False`; its messages are not indexed.
        """
        if not self.agent.options.memory:
            raise MemoryDisabledError(self.agent.name)
        identity = ConversationIdentity(
            agent=self.agent.name, conversation_id=self.conversation_id, contact=self.contact
        )
        settings = self._runtime.place.settings.recall
        asked = asked_from(identity, query, settings, mode=mode, limit=limit, role=role, scope=scope)
        deadline = Deadline("recall_conversation", self._runtime.call_timeout_s if timeout_s is None else timeout_s)
        left = self._index_what_was_said(deadline)
        found = self._runtime.memory_call("recall_messages", asked, timeout_s=deadline.remaining_s())
        return replace(cast(RecalledMessages, found), not_yet_indexed=left)

    def _index_what_was_said(self, deadline: Deadline) -> int:
        """Have this conversation's messages found; how many are not yet. One that is dormant and done stays so."""
        same_id = self._runtime.directory_call(
            "conversations_of_id", self.conversation_id, timeout_s=deadline.remaining_s()
        )
        [known] = [record for record in same_id if record.agent == self.agent.name] or [None]
        if known is None or not known.has_file or INDEX in map(label_of, known.drained_kinds):
            return 0
        left = self._link.call("drain_outbox", INDEX_WAIT_S, deadline=deadline, concurrency_group="control")
        return cast("Mapping[str, int]", left).get(INDEX, 0)

    @ordered_call
    def context(self, text: str = "…", *, timeout_s: float | None = None) -> Context:
        """What the model would see if `text` were sent now, part by part, with tokens."""
        return cast(Context, self.call("context", self._checked_turn(text, None)[1], timeout_s=timeout_s))

    @unordered_call
    def notes(self, *, timeout_s: float | None = None) -> str:
        """The working notes."""
        return cast(WorkingState, self._control("working_state", timeout_s=timeout_s)).notes

    @ordered_call
    def set_context(
        self,
        notes: str,
        mode: Literal["replace", "append", "clear"] = "replace",
        *,
        timeout_s: float | None = None,
    ) -> str:
        """Replace, extend or clear the working notes, as the model's tool of that name does; the notes now."""
        state = self.call("set_context", notes, mode, uuid4().hex, timeout_s=timeout_s)
        return cast(WorkingState, state).notes

    @unordered_call
    def get_ongoing_task(self, *, timeout_s: float | None = None) -> str | None:
        """The task that the conversation is working on."""
        return cast(WorkingState, self._control("working_state", timeout_s=timeout_s)).ongoing_task

    @ordered_call
    def set_ongoing_task(self, task: str, *, timeout_s: float | None = None) -> None:
        """Note the task that the conversation is working on."""
        self.call("set_ongoing_task", task, uuid4().hex, timeout_s=timeout_s)

    @ordered_call
    def clear_ongoing_task(self, *, timeout_s: float | None = None) -> None:
        """The ongoing task is done or dropped."""
        self.call("clear_ongoing_task", uuid4().hex, timeout_s=timeout_s)

    @unordered_call
    def cancel(self, *, timeout_s: float | None = None) -> Sequence[str]:
        """End the turn that is running, or else all that are open, as abandoned; their ids.

        What a turn did until then stays in the history. Whoever waits for it gets `TurnAbandonedError`.
        """
        running = self._control("cancel_running", timeout_s=timeout_s)
        if running is not None:
            return [cast(str, running)]
        return cast("Sequence[str]", self.call("abandon_open_turns", timeout_s=timeout_s))

    @ordered_call
    def retry_parked(self, *, timeout_s: float | None = None) -> int:
        """Hand over once more what consumers of the outbox could not take; how many messages were taken now."""
        return cast(int, self.call("retry_parked", timeout_s=timeout_s))

    @unordered_call
    def inspect(self, *, timeout_s: float | None = None) -> Inspection:
        """The conversation's process, file and open turns, also while a turn runs."""
        return cast(Inspection, self._control("inspect", timeout_s=timeout_s))

    def call(self, method: str, *arguments: object, timeout_s: float | None, turn_id: str | None = None) -> Any:
        """Call the actor and wait; see `ActorLink.call`."""
        deadline = Deadline(method, self._runtime.call_timeout_s if timeout_s is None else timeout_s, turn_id)
        return self._link.call(method, self._caller, *arguments, deadline=deadline)

    def _control(self, method: str, *arguments: object, timeout_s: float | None) -> Any:
        deadline = Deadline(method, self._runtime.call_timeout_s if timeout_s is None else timeout_s)
        return self._link.call(method, self._caller, *arguments, deadline=deadline, concurrency_group="control")

    def _checked_turn(self, text: str, turn_id: str | None) -> tuple[TurnId, str]:
        checked = check_text(text, "text", self._runtime.place.settings.turn.max_text_chars)
        return TurnId(uuid4().hex if turn_id is None else storable_id(turn_id, "turn_id")), checked

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:
        if ordered:
            return self._lane.submit(body, here=here)
        return self._runtime.submit(body, here=here)


def checked_messages(
    messages: Iterable[ImportedMessage | Mapping[str, Any]], max_chars: int
) -> Sequence[ImportedMessage]:
    """Messages to be imported, each with an id.

    Raises:
        InvalidInputError: One cannot be used; the error names its place.
    """
    if not isinstance(messages, Iterable):
        raise InvalidInputError("messages", f"a {type(messages).__name__} was given", "give a list of messages")
    return identified([_imported(entry, f"messages[{place}]", max_chars) for place, entry in enumerate(messages)])


def _imported(entry: ImportedMessage | Mapping[str, Any], field: str, max_chars: int) -> ImportedMessage:
    if isinstance(entry, Mapping):
        given = {("message_id" if key == "id" else key): value for key, value in entry.items()}
        unknown = set(given) - {known.name for known in fields(ImportedMessage)}
        missing = {"role", "text", "created_at"} - set(given)
        if unknown or missing:
            problem = f"unknown {sorted(unknown)}" if unknown else f"{sorted(missing)} missing"
            raise InvalidInputError(field, problem, "give role, text, created_at, and optionally speaker and id")
        if isinstance(given["created_at"], str):
            try:
                given["created_at"] = datetime.fromisoformat(given["created_at"])
            except ValueError as error:
                raise InvalidInputError(
                    f"{field}.created_at", str(error), "give a datetime or ISO 8601 text"
                ) from error
        entry = ImportedMessage(**given)
    if not isinstance(entry, ImportedMessage):
        raise InvalidInputError(
            field, f"a {type(entry).__name__} was given", "give mappings or ImportedMessage records"
        )
    check_text(entry.text, f"{field}.text", max_chars)
    if entry.role not in ("system", "user", "assistant"):
        raise InvalidInputError(f"{field}.role", f"{entry.role!r} is unknown", "use system, user or assistant")
    if not isinstance(entry.created_at, datetime):
        raise InvalidInputError(
            f"{field}.created_at",
            f"a {type(entry.created_at).__name__} was given",
            "give a datetime or ISO 8601 text",
        )
    if entry.speaker is not None and not isinstance(entry.speaker, str):
        raise InvalidInputError(f"{field}.speaker", f"a {type(entry.speaker).__name__} was given", "give a text")
    if entry.message_id is not None:
        return replace(entry, message_id=storable_id(entry.message_id, f"{field}.id"))
    return entry
