"""The directory as a conversation's process sees it."""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from ..storage.directory_records import ConversationNote, ConversationRecord
from ..storage.errors import CallTimeoutError
from ..storage.records import ContactId
from .placement import ConversationPlace, RuntimePlace, directory_actor
from .task_errors import cause_of

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

    def mark_stored(self, where: ConversationPlace, contact: ContactId | None) -> None:
        """Tell that the conversation has a file. See `Directory.mark_stored`."""
        self._call("mark_stored", where.agent, where.conversation_id, contact)

    def note(self, where: ConversationPlace, epoch: int, note: ConversationNote) -> None:
        """Tell what the conversation has stored. See `Directory.note`."""
        self._call("note", where.agent, where.conversation_id, epoch, note)

    def _call(self, method: str, *arguments: object) -> Any:
        limit = time.monotonic() + ANSWER_S
        while time.monotonic() < limit:
            try:
                reference = getattr(directory_actor(self._place), method).remote(*arguments)
                return ray.get(reference, timeout=max(0.1, limit - time.monotonic()))
            except RayTaskError as error:
                raise cause_of(error) from None
            except GetTimeoutError:
                break
            except (ActorDiedError, ActorUnavailableError, ValueError):
                time.sleep(RETRY_S)  # it is restarting, or its name was freed just now
        raise CallTimeoutError(f"directory.{method}", ANSWER_S)
