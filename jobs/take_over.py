"""What a turn takes over from earlier turns that broke off: their results stand before its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..storage.records import Checkpoint, Message, Turn
from ..storage.settings import TurnSettings
from .context import Resumed
from .turn_rows import closed, round_rows
from .turn_store import TurnStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Broken turns that end as abandoned when the turn that took them over finishes."""

    checkpoints: tuple[Checkpoint, ...]
    """Of each, oldest first; every call answered."""
    resumed: Resumed
    """As the model sees them."""

    @property
    def has_results(self) -> bool:
        """Is there anything that a model was given before?"""
        return any(checkpoint.rounds for checkpoint in self.checkpoints)

    def rows(self) -> Iterator[Message]:
        """Their tool rounds as messages of theirs."""
        for checkpoint in self.checkpoints:
            yield from round_rows(checkpoint.turn_id, checkpoint.rounds)


def take_over(store: TurnStore, turn: Turn, as_of: datetime, settings: TurnSettings) -> TakenOver:
    """What `turn` takes over: earlier turns still open, untouched for `resume_after_s`, not yet expired."""
    quiet, expiry = (
        timedelta(seconds=settings.resume_after_s),
        timedelta(seconds=settings.checkpoint_expiry_s),
    )
    checkpoints: list[Checkpoint] = []
    sessions: list[str] = []
    is_complete = True
    for other in store.open_turns():
        checkpoint = store.readable_checkpoint(other.turn_id)
        if other.user_seq >= turn.user_seq or not quiet < as_of - checkpoint.touched_at <= expiry:
            continue
        is_complete = is_complete and store.is_checkpoint_readable(other.turn_id)
        sessions += checkpoint.open_sessions
        rounds = tuple(closed(tool_round, as_of) for tool_round in checkpoint.rounds)
        checkpoints.append(Checkpoint(turn_id=checkpoint.turn_id, rounds=rounds, touched_at=checkpoint.touched_at))
    return TakenOver(
        checkpoints=tuple(checkpoints),
        resumed=Resumed(
            rounds=tuple(tool_round for checkpoint in checkpoints for tool_round in checkpoint.rounds),
            open_sessions=tuple(sessions),
            is_complete=is_complete,
        ),
    )
