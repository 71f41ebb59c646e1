"""An agent, as a driver holds it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from ...storage.agent_options import AgentOptions
from ...storage.records import AgentName, ContactId, ConversationId
from ...storage.text import storable_id
from ..calls import AgentSnapshot
from .actor_call import Deadline
from .conversation import ConversationHandle
from .memories import Memories
from .pending import unordered_call

if TYPE_CHECKING:
    from .runtime import Runtime

Result = TypeVar("Result")
DEFAULT_CONVERSATION = "default"


class Agent:
    """An agent of the runtime. Its options are stored under its name."""

    def __init__(self, runtime: Runtime, snapshot: AgentSnapshot) -> None:
        self.runtime = runtime
        self.snapshot = snapshot

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    @property
    def name(self) -> AgentName:
        """Its unique name."""
        return self.snapshot.name

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return self.snapshot.agent_id

    @property
    def options(self) -> AgentOptions:
        """Model, system prompt and tools, as stored when this handle was made."""
        return self.snapshot.options

    @property
    def memories(self) -> Memories:
        """What it remembers, agent-wide and of every contact; what is remembered here is agent-wide."""
        return Memories(self, None, sees_all=True)

    def memories_of(self, contact: str) -> Memories:
        """What it remembers of a contact, and agent-wide; what is remembered here is the contact's."""
        return Memories(self, ContactId(storable_id(contact, "contact")))

    @unordered_call
    def conversation(
        self, conversation_id: str, contact: str | None = None, *, timeout_s: float | None = None
    ) -> ConversationHandle:
        """A conversation of this agent; it starts with its first message.

        Args:
            conversation_id: Any non-empty string.
            contact: The person at the other end, such as `telegram:1234`; it stays with the conversation.

        Raises:
            InvalidInputError: An id is no string, or empty.
            ContactMismatchError: The conversation exists with another contact.
        """
        identity = ConversationId(storable_id(conversation_id, "conversation_id"))
        who = None if contact is None else ContactId(storable_id(contact, "contact"))
        known = self.runtime.directory_call("register_conversation", self.name, identity, who, timeout_s=timeout_s)
        return ConversationHandle(self, identity, known)

    @unordered_call
    def ask(self, text: str, *, timeout_s: float | None = None) -> str:
        """The reply's text to a message in the agent's default conversation. Errors as for `send`."""
        chat = ConversationHandle(self, ConversationId(DEFAULT_CONVERSATION), None)
        deadline = Deadline("ask", timeout_s)
        self.runtime.directory_call("register_conversation", self.name, chat.conversation_id, None, timeout_s=timeout_s)
        return chat.send(text, timeout_s=deadline.remaining_s()).text

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:  # noqa: ARG002 - the protocol's
        return self.runtime.submit(body, here=here)
