"""The live conversations of this node, looked at without waking any that is dormant."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from ...storage.records import AgentName, ConversationId
from ..calls import Inspection
from ..live_marks import Live, live_conversations, live_folder
from ..placement import RuntimePlace, conversation_ids

LIVE_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConversation:
    """A conversation that has a process."""

    agent: AgentName
    conversation_id: ConversationId
    pid: int
    last_used: float
    """Seconds since the epoch, by the file system's clock."""
    inspection: Inspection | None
    """None: it did not answer in time, or is just starting or ending."""


def inspect_live(place: RuntimePlace, timeout_s: float) -> Sequence[LiveConversation]:
    """What each live conversation of this node says of itself. See `Runtime.live_conversations`."""
    import ray
    from ray.exceptions import RayError

    asked: list[tuple[Live, Any]] = []
    for mark in live_conversations(live_folder(place.data_dir)):
        with suppress(ValueError):  # it has ended since
            actor: Any = ray.get_actor(mark.actor_name, place.namespace)
            # One that ends now must not be started again by the question.
            question: Any = actor.inspect.options(concurrency_group="control", max_task_retries=0)
            asked.append((mark, question.remote(None)))
    limit = time.monotonic() + timeout_s
    found = []
    for mark, answer in asked:
        inspection: Inspection | None = None
        with suppress(RayError):  # a timeout among them
            inspection = cast(Inspection, ray.get(answer, timeout=max(0.0, limit - time.monotonic())))
        agent, conversation_id = conversation_ids(mark.actor_name)
        found.append(
            LiveConversation(
                agent=agent,
                conversation_id=conversation_id,
                pid=mark.pid,
                last_used=mark.last_used,
                inspection=inspection,
            )
        )
    return found
