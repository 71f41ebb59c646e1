"""What is asked of the messages of conversations, as a record, and how a question becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from ..storage.errors import InvalidInputError
from ..storage.records import AgentName, ContactId, ConversationId, ConversationIdentity
from ..storage.settings import RecallSettings

SearchMode = Literal["semantic", "keyword", "hybrid"]
MessageScope = Literal["contact", "conversation", "all"]
SpokenRole = Literal["user", "assistant"]
MODES: tuple[SearchMode, ...] = get_args(SearchMode)
SCOPES: tuple[MessageScope, ...] = get_args(MessageScope)
ROLES: tuple[SpokenRole, ...] = get_args(SpokenRole)
MAX_LIMIT = 1000
MAX_QUERY_CHARS = 10_000
"""What of a query is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which messages are looked for, and among which."""

    agent: AgentName
    text: str
    mode: SearchMode = "hybrid"
    limit: int
    contacts: tuple[ContactId, ...] | None = None
    """Only conversations with these. None: with anybody, or nobody."""
    conversations: tuple[ConversationId, ...] | None = None
    """Only these. None: any."""
    role: SpokenRole | None = None


def asked_from(
    conversation: ConversationIdentity,
    text: object,
    settings: RecallSettings,
    *,
    mode: object = "hybrid",
    limit: object = None,
    role: object = None,
    scope: object = "contact",
) -> MessageQuery:
    """A question asked in a conversation.

    Args:
        limit: None: `recall.conversation_limit`.
        scope: `contact`: every conversation of this one's contact; without a contact, this one. `conversation`:
            this one. `all`: every conversation of the agent; whoever asks has seen that it may be.

    Raises:
        InvalidInputError: An argument cannot be used; names it.
    """
    if not isinstance(text, str):
        raise InvalidInputError("query", f"a {type(text).__name__} was given", "give a text")
    for field, given, known in (("mode", mode, MODES), ("scope", scope, SCOPES), ("role", role, (None, *ROLES))):
        if given not in known:
            names = ", ".join(name for name in known if name is not None)
            raise InvalidInputError(field, f"{given!r} is unknown", f"use one of {names}")
    wanted = settings.conversation_limit if limit is None else limit
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 1 <= wanted <= MAX_LIMIT:
        raise InvalidInputError("limit", f"{wanted!r} is out of range", f"give a whole number from 1 to {MAX_LIMIT:,}")
    contact = conversation.contact if scope == "contact" else None
    is_within = scope == "conversation" or (scope == "contact" and contact is None)
    return MessageQuery(
        agent=conversation.agent,
        text=text[:MAX_QUERY_CHARS],
        mode=cast(SearchMode, mode),
        limit=wanted,
        contacts=None if contact is None else (contact,),
        conversations=(conversation.conversation_id,) if is_within else None,
        role=cast("SpokenRole | None", role),
    )
