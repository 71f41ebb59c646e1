"""Keys of memories: the scope they belong to, how they are shown, and the ids of their vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType

from .records import ContactId

AgentId = NewType("AgentId", str)
VectorId = NewType("VectorId", str)

_SEPARATORS = re.compile(r"[:._\-/]")
_WORDS = re.compile(r"[^\W_]+")
_PUNCTUATION = ".,;:!?…\"'`()[]{}<>«»„“”‘’¿¡、。！？「」（）"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whom a memory concerns: one contact of an agent, or nobody in particular."""

    contact_id: ContactId | None = None
    """None: agent-wide."""


AGENT_WIDE = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Whose memories a reader may see. Every read says it; there is none without."""

    agent_id: AgentId
    scopes: tuple[Scope, ...] | None
    """In order of precedence. None: all of the agent's, for the agent's owner only."""

    @classmethod
    def of_contact(cls, agent_id: AgentId, contact_id: ContactId | None) -> Visibility:
        """What a conversation with this contact, or with none, sees: the contact's memories and the agent-wide."""
        own = (Scope(contact_id=contact_id),) if contact_id is not None else ()
        return cls(agent_id=agent_id, scopes=(*own, AGENT_WIDE))

    @classmethod
    def of_agent(cls, agent_id: AgentId) -> Visibility:
        """All memories of an agent, in every scope."""
        return cls(agent_id=agent_id, scopes=None)

    def includes(self, scope: Scope) -> bool:
        """May a memory of this scope be seen?"""
        return self.scopes is None or scope in self.scopes

    def precedence(self, scope: Scope) -> int:
        """The place of a scope that is included; the lowest comes first. In all scopes, agent-wide comes first."""
        return self.scopes.index(scope) if self.scopes is not None else int(scope != AGENT_WIDE)


def key_shown(scope: Scope, key: str) -> str:
    """A key with its scope, for people to read. It may look like another's: never look anything up by it."""
    if scope.contact_id is None:
        return f"memory:{key}"
    return f"memory:contact:{scope.contact_id}:{key}"


def vector_id(agent_id: AgentId, scope: Scope, key: str) -> VectorId:
    """The id under which the indexes hold a memory; different for every agent, scope and key."""
    segments = ["mem", agent_id, "memory", key]
    if scope.contact_id is not None:
        segments[3:3] = ["contact", scope.contact_id]
    return VectorId(joined(segments))


def parse_vector_id(given: VectorId) -> tuple[AgentId, Scope, str] | None:
    """The agent, scope and key of a vector id; None where it is none."""
    match [_unescaped(segment) for segment in given.split(":")]:
        case ["mem", agent_id, "memory", key]:
            found = AgentId(agent_id), AGENT_WIDE, key
        case ["mem", agent_id, "memory", "contact", contact_id, key]:
            found = AgentId(agent_id), Scope(contact_id=ContactId(contact_id)), key
        case _:
            return None
    return found if vector_id(*found) == given else None


def key_segments(key: str) -> frozenset[str]:
    """The parts of a key between `: . _ - /`, case folded."""
    return frozenset(_SEPARATORS.split(key.casefold())) - {""}


def query_tokens(query: str) -> frozenset[str]:
    """What segments of keys are compared with: a query's words, and the same with signs that stand in them (`c++`)."""
    folded = query.casefold()
    tokens = set(_WORDS.findall(folded))
    for word in folded.split():
        tokens.update(part.strip(_PUNCTUATION) for part in (word, *_SEPARATORS.split(word)))
    return frozenset(tokens) - {""}


def matching_segments(key: str, tokens: Iterable[str]) -> int:
    """How many segments of a key are among the tokens."""
    return len(key_segments(key).intersection(tokens))


def joined(segments: Iterable[str]) -> str:
    """An id of several parts; different for different parts, whatever they contain."""
    return ":".join(map(_escaped, segments))


def _escaped(segment: str) -> str:
    return segment.replace("%", "%25").replace(":", "%3A")


def _unescaped(segment: str) -> str:
    return segment.replace("%3A", ":").replace("%25", "%")
