"""What an agent remembers, as a driver holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

from ...jobs.memory_requests import KeyRecall, RecallQuery, Remember, Remembered
from ...jobs.recalled import Recalled
from ...storage.errors import InvalidInputError, MemoryDisabledError
from ...storage.memory_keys import AGENT_WIDE, AgentId, Scope, Visibility
from ...storage.memory_records import Memory, MemoryFilter, MemoryId, MemoryOrder, VersionId
from ...storage.records import ContactId
from ...storage.text import check_text, storable_id
from .pending import unordered_call

if TYPE_CHECKING:
    from .agent import Agent

Result = TypeVar("Result")
MAX_QUERY_CHARS = 100_000


class Memories:
    """The semantic memory of one agent, seen from a contact, or from nobody in particular.

    A contact's own memories come before the agent-wide ones; another contact's are never seen. Every call raises
    `MemoryDisabledError` where the agent was opened with `memory=False`.
    """

    def __init__(self, agent: Agent, contact: ContactId | None, *, sees_all: bool = False) -> None:
        self._agent = agent
        self._runtime = agent.runtime
        self._agent_id = AgentId(agent.id)
        self._scope = AGENT_WIDE if contact is None else Scope(contact_id=contact)
        self._visible = (
            Visibility.of_agent(self._agent_id) if sees_all else Visibility.of_contact(self._agent_id, contact)
        )

    def __repr__(self) -> str:
        return f"Memories(agent={self._agent.name!r}, contact={self._scope.contact_id!r})"

    @unordered_call
    def remember(
        self,
        key: str,
        value: str,
        category: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        valid_from: datetime | None = None,
        write_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Remembered:
        """Remember a value under a key, in place of what stood there; durable and found by recall on return.

        Args:
            key: Any text up to 1,024 characters. It never reaches beyond its scope, whatever it looks like.
            value: The fact, as a sentence that stands by itself.
            category: The fact type: `preference`, `identity`, `event`, `instruction`, `task` …; None: as before.
            metadata: Whatever JSON can write.
            valid_from: When it was said; a time without a zone is UTC. What was said later stays the current one.
            write_id: The write's own id, to repeat it safely. None makes one.

        Raises:
            InvalidInputError: Something cannot be stored; names the field. Nothing was written.
            MemoryConflictError: The write's id is taken by another fact.
        """
        text = check_text(value, "value", self._runtime.place.settings.memory.max_value_chars, "memory.max_value_chars")
        fact = Remember(
            write_id=uuid4().hex if write_id is None else storable_id(write_id, "write_id"),
            agent_id=self._agent_id,
            scope=self._scope,
            key=key,
            value=text,
            fact_type=category,
            metadata=None if metadata is None else _as_json(metadata),
            valid_from=valid_from,
        )
        return cast(Remembered, self._call("remember", fact, timeout_s=timeout_s))

    @unordered_call
    def recall(
        self,
        key: str | None = None,
        *,
        as_of: datetime | None = None,
        limit: int = 100,
        timeout_s: float | None = None,
    ) -> Sequence[Memory]:
        """What stands under a key, the contact's before the agent's; without a key all, the newest first.

        Args:
            as_of: What held then, by when things were said; superseded versions too.
        """
        wanted = KeyRecall(visible=self._visible, key=key, limit=limit, as_of=_in_utc(as_of))
        return cast("Sequence[Memory]", self._call("recall_key", wanted, timeout_s=timeout_s))

    @unordered_call
    def fused_recall(
        self, query: str, top_k: int | None = None, *, fill: bool = True, timeout_s: float | None = None
    ) -> Recalled:
        """What a query reminds of: by meaning, by words and by key, fused and explained.

        Args:
            query: Any text; nothing in it is an operator.
            top_k: Hits at most; None: `recall.top_k`.
            fill: Fill up to `recall.fill_to` with what is used lately and often.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", f"a {type(query).__name__} was given", "give a text")
        asked = RecallQuery(visible=self._visible, text=query[:MAX_QUERY_CHARS], top_k=top_k, is_filled=fill)
        return cast(Recalled, self._call("recall", asked, timeout_s=timeout_s))

    @unordered_call
    def forget(self, key: str, *, timeout_s: float | None = None) -> VersionId | None:
        """Forget what stands under a key in this scope: nothing finds it any more. What it was, or None."""
        found = self._call("forget", self._agent_id, self._scope, key, timeout_s=timeout_s)
        return cast("VersionId | None", found)

    @unordered_call
    def history(self, key: str, *, timeout_s: float | None = None) -> Sequence[Memory]:
        """Every version that was stored under a key, in the order in which they were stored."""
        return cast("Sequence[Memory]", self._call("history", self._visible, key, timeout_s=timeout_s))

    @unordered_call
    def get(self, memory_id: str, *, timeout_s: float | None = None) -> Memory | None:
        """A memory by its id: as it is now, or as it was last."""
        return cast("Memory | None", self._call("get", self._visible, MemoryId(memory_id), timeout_s=timeout_s))

    @unordered_call
    def list(
        self,
        wanted: MemoryFilter | None = None,
        order: MemoryOrder | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        timeout_s: float | None = None,
    ) -> Sequence[Memory]:
        """A part of what is remembered now, in order; by default the newest first."""
        arguments = (self._visible, wanted or MemoryFilter(), order or MemoryOrder(), limit, offset)
        return cast("Sequence[Memory]", self._call("page", *arguments, timeout_s=timeout_s))

    def _call(self, method: str, *arguments: object, timeout_s: float | None) -> Any:
        if not self._agent.options.memory:
            raise MemoryDisabledError(self._agent.name)
        return self._runtime.memory_call(method, *arguments, timeout_s=timeout_s)

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:  # noqa: ARG002 - the protocol's
        return self._runtime.submit(body, here=here)


def _as_json(metadata: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "metadata", f"it has no JSON form ({error})", "give numbers, texts, lists and objects"
        ) from error


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
