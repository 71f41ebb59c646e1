"""The directory as a conversation's process sees it."""

from __future__ import annotations

from ..storage.directory_records import ConversationNote, ConversationRecord
from ..storage.records import ContactId
from .placement import ConversationPlace, RuntimePlace, directory_actor
from .singleton_client import SingletonClient

ANSWER_S = 60.0


class DirectoryClient:
    """Asks the directory, which may be restarting."""

    def __init__(self, place: RuntimePlace) -> None:
        self._directory = SingletonClient("directory", lambda: directory_actor(place), ANSWER_S)

    def activate(self, where: ConversationPlace, node_id: str, after: int) -> ConversationRecord:
        """The next epoch of a conversation. See `Directory.activate`."""
        record = self._directory.call("activate", where.agent, where.conversation_id, where.contact, node_id, after)
        assert isinstance(record, ConversationRecord)
        return record

    def mark_stored(self, where: ConversationPlace, contact: ContactId | None) -> None:
        """Tell that the conversation has a file. See `Directory.mark_stored`."""
        self._directory.call("mark_stored", where.agent, where.conversation_id, contact)

    def note(self, where: ConversationPlace, epoch: int, note: ConversationNote) -> None:
        """Tell what the conversation has stored. See `Directory.note`."""
        self._directory.call("note", where.agent, where.conversation_id, epoch, note)

    def has_memory(self, where: ConversationPlace) -> bool:
        """Has the conversation's agent a long-term memory?"""
        return bool(self._directory.call("has_memory", where.agent))
