"""All that can be read of the file of memories, for another thread than the writer's."""

from __future__ import annotations

from .database import Database
from .memory_outbox import MemoryOutboxReader
from .memory_reader import MemoryReader
from .memory_scan import MemoryScan


class MemoryReaders:
    """Reads through one cursor: for one thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.memories = MemoryReader(database)
        """What agents and their conversations may see."""
        self.outbox = MemoryOutboxReader(database)
        self.scan = MemoryScan(database)
        """Across agents and scopes."""
