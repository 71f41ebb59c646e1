"""A conversation's file as threads beside the writer's read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from .database import Database, from_stored
from .message_log import MessageReader
from .outbox_log import OutboxReader
from .overlay_log import read_overlays
from .records import Overlay, Turn, WorkingState
from .turn_log import TurnReader, checkpoint_key


class ConversationReader:
    """Reads a conversation through a cursor of its own: for another thread than the writer's."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.messages = MessageReader(database)
        self.turns = TurnReader(database)
        self.outbox = OutboxReader(database)

    def overlays(self) -> Sequence[Overlay]:
        """The overlays, oldest range first."""
        return read_overlays(self.database)

    def working_state(self) -> WorkingState:
        """Notes and ongoing task."""
        notes, task, changes = self.database.query("SELECT notes, ongoing_task, recent_changes FROM conversation")[0]
        return WorkingState(
            notes=cast(str, notes),
            ongoing_task=cast("str | None", task),
            recent_changes=tuple(json.loads(cast(str, changes))),
        )

    def open_turns(self) -> Sequence[tuple[Turn, datetime, int]]:
        """Turns that have not ended, oldest first: each with its last touch and its number of tool rounds."""
        steps = {
            cast(str, key): (from_stored(cast(datetime, touched_at)), cast(int, rounds))
            for key, touched_at, rounds in self.database.query(
                "SELECT checkpoint_key, max(recorded_at), count(*) FILTER (kind = 'calls')"
                " FROM turn_checkpoints GROUP BY checkpoint_key ORDER BY checkpoint_key"
            )
        }
        return [
            (turn, max(turn.attempted_at, touched_at), rounds)
            for turn in self.turns.open_turns()
            for touched_at, rounds in [steps.get(checkpoint_key(turn.turn_id), (turn.opened_at, 0))]
        ]
