"""The tools by which a model remembers, recalls and forgets.

Each call carries an id made of its turn and call, so that one that was cut off can run again: it takes effect once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..storage.errors import InvalidInputError, PerdureError
from ..storage.memory_keys import AGENT_WIDE, AgentId, Scope, Visibility, key_shown
from ..storage.memory_records import Memory, Provenance
from ..storage.records import AgentName, ConversationIdentity, ToolCall
from ..storage.settings import Settings
from .chat_model import ToolSpec
from .memory_requests import KeyRecall, Remember, Remembered
from .message_query import MODES, ROLES, SCOPES, asked_from
from .recalled_messages import messages_shown
from .tool_runner import CallOrigin, ToolOutcome
from .turn_memory import TurnMemory

CATEGORIES = ("fact", "preference", "identity", "relationship", "decision", "event", "instruction", "skill", "task")
MOST_LISTED = 50


def _schema(properties: Mapping[str, Mapping[str, Any]], required: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


MEMORY_TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        ToolSpec(
            name="remember",
            description=(
                "Remember a fact about the person you talk to, or about your work, beyond this conversation."
                " Another value under the same key replaces the former one."
            ),
            parameters=_schema(
                {
                    "key": {"type": "string", "description": "Short and stable, such as home.city or diet."},
                    "value": {"type": "string", "description": "The fact, as a sentence that stands by itself."},
                    "category": {
                        "type": "string",
                        "description": f"One of {', '.join(CATEGORIES)}.",
                        "default": "fact",
                    },
                },
                ("key", "value"),
            ),
            idempotent=True,
        ),
        ToolSpec(
            name="recall",
            description="What you remember under a key, or all that you remember.",
            parameters=_schema({"key": {"type": "string", "description": "Leave it out for all."}}),
            idempotent=True,
        ),
        ToolSpec(
            name="recall_conversation",
            description=(
                "Search what was said in conversations with the person you talk to, earlier ones and on other"
                " channels included."
            ),
            parameters=_schema(
                {
                    "query": {"type": "string", "description": "What to look for, in words."},
                    "mode": {
                        "type": "string",
                        "enum": list(MODES),
                        "default": "hybrid",
                        "description": "By meaning, by words, or both.",
                    },
                    "limit": {"type": "integer", "minimum": 1, "default": 10},
                    "role": {"type": "string", "enum": list(ROLES), "description": "Only what this role said."},
                    "scope": {
                        "type": "string",
                        "enum": list(SCOPES),
                        "default": "contact",
                        "description": "All conversations with this person, or only this one; all: with anybody.",
                    },
                },
                ("query",),
            ),
            idempotent=True,
        ),
        ToolSpec(
            name="forget",
            description="Forget what you remember under a key.",
            parameters=_schema({"key": {"type": "string"}}, ("key",)),
            idempotent=True,
        ),
    )
}


class MemoryTools:
    """Runs the memory tools of one turn."""

    def __init__(
        self,
        memory: TurnMemory,
        agent_id: AgentId,
        origin: CallOrigin,
        settings: Settings,
        own_tools: Sequence[ToolSpec] = (),
    ) -> None:
        """`own_tools`: the agent's. One that has the name of a tool from here takes its place."""
        own = {tool.name for tool in own_tools}
        self.specs: Mapping[str, ToolSpec] = {name: spec for name, spec in MEMORY_TOOLS.items() if name not in own}
        """Those that the model is offered."""
        self._settings = settings
        self._memory = memory
        self._agent_id = agent_id
        self._origin = origin
        self._scope = AGENT_WIDE if origin.contact is None else Scope(contact_id=origin.contact)
        self._visible = Visibility.of_contact(agent_id, origin.contact)

    def run(self, call: ToolCall) -> ToolOutcome:
        """The outcome of a call; one that cannot be done says why."""
        actions: Mapping[str, Callable[[ToolCall, Mapping[str, Any]], str]] = {
            "remember": self._remember,
            "recall": self._recall,
            "recall_conversation": self._recall_conversation,
            "forget": self._forget,
        }
        try:
            arguments = json.loads(call.arguments) if call.arguments.strip() else {}
            content = actions[call.name](call, arguments)
        except KeyError as error:
            return ToolOutcome(call_id=call.call_id, status="failed", content=f"The argument {error} is missing.")
        except PerdureError as error:
            return ToolOutcome(call_id=call.call_id, status="failed", content=str(error))
        return ToolOutcome(call_id=call.call_id, status="succeeded", content=content)

    def _remember(self, call: ToolCall, arguments: Mapping[str, Any]) -> str:
        key, value, category = arguments["key"], arguments["value"], arguments.get("category")
        for name, given in (("key", key), ("value", value), ("category", category or "")):
            if not isinstance(given, str):
                raise InvalidInputError(name, f"a {type(given).__name__} was given", "give a text")
        origin = self._origin
        done = self._memory.remember(
            Remember(
                write_id=_write_id(origin, call),
                agent_id=self._agent_id,
                scope=self._scope,
                key=key,
                value=value,
                fact_type=category or None,
                provenance=Provenance(conversation_id=origin.conversation_id, tool="remember"),
            )
        )
        return _told(done, key)

    def _recall(self, _: ToolCall, arguments: Mapping[str, Any]) -> str:
        key = arguments.get("key") or None
        found = self._memory.recall_key(KeyRecall(visible=self._visible, key=key, limit=MOST_LISTED))
        if not found:
            return "Nothing is remembered." if key is None else f"Nothing is remembered under {key!r}."
        return shown(found)

    def _recall_conversation(self, _: ToolCall, arguments: Mapping[str, Any]) -> str:
        origin = self._origin
        options = ("mode", "limit", "role", "scope")
        given = {name: arguments[name] for name in options if arguments.get(name) not in (None, "")}
        if given.get("scope") == "all" and not self._settings.tools.allow_scope_all:
            raise InvalidInputError(
                "scope", "'all' is not allowed to models here", "use contact or conversation, or leave it out"
            )
        conversation = ConversationIdentity(
            agent=AgentName(origin.agent), conversation_id=origin.conversation_id, contact=origin.contact
        )
        query = asked_from(conversation, arguments["query"], self._settings.recall, **given)
        return messages_shown(self._memory.recall_messages(query))

    def _forget(self, _: ToolCall, arguments: Mapping[str, Any]) -> str:
        """Only in the scope in which `remember` writes: nobody's conversation takes away what concerns all."""
        key = arguments["key"]
        ended = self._memory.forget(self._agent_id, self._scope, key)
        return (
            f"Nothing was remembered under {key!r}." if ended is None else f"Forgotten: {key_shown(self._scope, key)}."
        )


def _write_id(origin: CallOrigin, call: ToolCall) -> str:
    """The same for a call that runs again, whatever signs the ids have, and short however long they are."""
    ids = json.dumps([origin.conversation_id, origin.turn_id, call.call_id])
    return f"call:{hashlib.sha256(ids.encode('ascii')).hexdigest()}"


def shown(memories: Sequence[Memory]) -> str:
    """Memories as a tool's result shows them."""
    return "\n".join(f"{memory.key}: {memory.value} (said {memory.valid_from:%Y-%m-%d})" for memory in memories)


def _told(done: Remembered, key: str) -> str:
    said = {
        "created": f"Remembered under {key!r}.",
        "versioned": f"Remembered under {key!r} in place of the former value.",
        "confirmed": f"Known already under {key!r}; confirmed.",
        "outdated": f"Stored under {key!r} as a former value: what is known was said later.",
    }[done.outcome]
    others = len([version for version in done.superseded if version.memory_id != done.version_id.memory_id])
    return f"{said} It replaces {others} other memories." if others else said
