"""Asks for the memories that are kept in memory, without holding the event loop up when they have to be read in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ..storage.hot_memories import HotMemories
from ..storage.memory_keys import AgentId

Result = TypeVar("Result")


async def ask_hot(hot: HotMemories, agent_id: AgentId, question: Callable[[HotMemories], Result]) -> Result:
    """The answer: at once where the agent's memories are held, else from a thread, which reads them in."""
    if hot.holds(agent_id):
        return question(hot)
    return await asyncio.to_thread(question, hot)
