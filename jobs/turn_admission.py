"""Who may execute: the states of turns, repeats of their ids, and what a new turn takes over from broken ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..storage.errors import TurnAbandonedError, TurnConflictError, TurnFailedError, TurnInProgressError
from ..storage.records import Message, Reply, Turn, TurnId, TurnOwner
from ..storage.settings import TurnSettings
from ..storage.tokens import estimate_message_tokens
from .turn_rows import interrupted_rows, turn_message_id
from .turn_store import TurnStore


def text_digest(text: str) -> str:
    """SHA-256 of a message's text, hexadecimal: two texts are the same message when it is equal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A turn that may execute now: it is open, and its user message is stored."""

    turn: Turn
    attempt: int
    """Counted from 1."""
    is_expired: bool = False
    """What earlier attempts did is too old to be shown to the model."""


def admit(
    store: TurnStore, turn_id: TurnId, text: str, owner: TurnOwner, now: datetime, settings: TurnSettings
) -> Admitted | Reply:
    """Open a turn, or go on with an open one; a finished one's reply. One commit at most.

    Raises:
        CheckpointUnreadableError: The turn is open and what it did cannot be read.
        TurnConflictError: The id is taken by another text.
        TurnInProgressError: A driver's turn is open and was touched lately.
        TurnFailedError, TurnAbandonedError: The turn has ended without a reply.
    """
    digest = text_digest(text)
    turn = store.turn(turn_id)
    if turn is None:
        _refuse_beside_driver(store, turn_id, owner, now, settings)
        message = Message(
            message_id=turn_message_id(turn_id, "user"),
            role="user",
            content=text,
            turn_id=turn_id,
            tokens=estimate_message_tokens(text),
            created_at=now,
        )
        turn = store.open_turn(turn_id=turn_id, owner=owner, text_digest=digest, message=message, at=now)
        return Admitted(turn=turn, attempt=1)
    if turn.text_digest != digest:
        raise TurnConflictError(turn_id)
    if turn.state != "open":
        return stored_reply(store, turn)
    _refuse_beside_driver(store, turn_id, owner, now, settings)
    if owner == "driver":
        return Admitted(turn=turn, attempt=turn.attempts_begun + 1)
    checkpoint = store.checkpoint(turn_id)  # an unreadable one is refused here, before an attempt is counted
    is_expired = now - checkpoint.touched_at > timedelta(seconds=settings.checkpoint_expiry_s)
    deaths = turn.attempts_begun - turn.attempts_ended
    if deaths >= settings.max_process_deaths:
        error = f"its process died {deaths} times while it ran"
        rows = interrupted_rows(store, turn_id, now)
        store.fail_turn(turn_id=turn_id, error=error, messages=rows, at=now)
        raise TurnFailedError(turn_id, error)
    store.begin_attempt(turn_id=turn_id, at=now)
    return Admitted(turn=turn, attempt=turn.attempts_begun + 1, is_expired=is_expired)


def stored_reply(store: TurnStore, turn: Turn) -> Reply:
    """The reply of a turn that has ended, or of the turn that took it over.

    Raises:
        TurnFailedError, TurnAbandonedError: It ended without one.
    """
    ended: Turn | None = turn
    while ended is not None and ended.absorbed_by is not None:
        ended = store.turn(ended.absorbed_by)
    if ended is not None and ended.reply is not None:
        return ended.reply
    if ended is not None and ended.state == "failed":
        raise TurnFailedError(ended.turn_id, ended.error or "unknown reason")
    raise TurnAbandonedError(turn.turn_id, turn.absorbed_by)


def _refuse_beside_driver(
    store: TurnStore, turn_id: TurnId, owner: TurnOwner, now: datetime, settings: TurnSettings
) -> None:
    """A driver's open turn keeps others out while it is being worked on; only the driver goes on with it."""
    for other in store.open_turns():
        if other.owner != "driver" or (other.turn_id == turn_id and owner == "driver"):
            continue
        untouched_s = (now - store.readable_checkpoint(other.turn_id).touched_at).total_seconds()
        if untouched_s <= settings.resume_after_s:
            raise TurnInProgressError(other.turn_id, untouched_s, settings.resume_after_s)
