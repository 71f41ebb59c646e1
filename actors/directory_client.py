"""The directory as a conversation's process sees it."""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from ..storage.conversation_store import ConversationStore
from ..storage.directory_store import ConversationRecord
from ..storage.errors import CallTimeoutError, PerdureError
from .placement import ConversationPlace, RuntimePlace, directory_actor

ANSWER_S = 60.0
RETRY_S = 0.1


class DirectoryClient:
    """Asks the directory, which may be restarting."""

    def __init__(self, place: RuntimePlace) -> None:
        self._place = place

    def activate(self, where: ConversationPlace, node_id: str, after: int) -> ConversationRecord:
        """The next epoch of a conversation. See `Directory.activate`."""
        record = self._call("activate", where.agent, where.conversation_id, where.contact, node_id, after)
        assert isinstance(record, ConversationRecord)
        return record

    def note(self, where: ConversationPlace, epoch: int, store: ConversationStore) -> None:
        """Tell what the conversation has stored. See `Directory.note`."""
        self._call("note", where.agent, where.conversation_id, epoch, store.message_count(), len(store.open_turns()))

    def _call(self, method: str, *arguments: object) -> Any:
        limit = time.monotonic() + ANSWER_S
        while time.monotonic() < limit:
            try:
                reference = getattr(directory_actor(self._place), method).remote(*arguments)
                return ray.get(reference, timeout=max(0.1, limit - time.monotonic()))
            except RayTaskError as error:
                if isinstance(error.cause, PerdureError):
                    raise error.cause from None
                raise
            except GetTimeoutError:
                break
            except (ActorDiedError, ActorUnavailableError, ValueError):
                time.sleep(RETRY_S)  # it is restarting, or its name was freed just now
        raise CallTimeoutError(f"directory.{method}", ANSWER_S)
