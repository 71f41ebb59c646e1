"""An agent's options as they are stored: model, system prompt, tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """A tool of an agent, without its code."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of an object."""
    idempotent: bool = False
    timeout_s: float | None = None
    reference: str | None = None
    """`module:function`; None for a function of a script or notebook, which travels with each call."""
    search_path: str | None = None
    """Folder from which the module is imported, where it is no installed package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What may be set on an agent."""

    model: str | None = None
    """None: the embedded model."""
    system_prompt: str = ""
    memory: bool = True
    tools: tuple[ToolRecord, ...] = field(default=())

    def to_json(self) -> str:
        """The options as they are stored."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AgentOptions:
        """Stored options read back."""
        data = json.loads(text)
        tools = tuple(ToolRecord(**tool) for tool in data.pop("tools"))
        return cls(tools=tools, **data)
