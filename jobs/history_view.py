"""Head, overlays and tail: a conversation's history fitted into a budget of tokens.

Fitted anew before each request, since what the turn itself needs grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from ..storage.settings import ContextSettings
from .history import GatheredHistory, Group, leading
from .passages import Passage, passage, tokens_of

_WORTH_CUTTING = 4  # a message larger than the whole tail is cut, if at least a quarter of the tail is left for it


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """What of a conversation is in view, each part in order."""

    head: tuple[Passage, ...] = ()
    overlays: tuple[Passage, ...] = ()
    tail: tuple[Passage, ...] = ()
    """Begins with a note where earlier messages are neither shown nor summarised."""

    @property
    def tokens(self) -> int:
        """Of all of it."""
        return tokens_of([*self.head, *self.overlays, *self.tail])


def fit_history(gathered: GatheredHistory, room: int, settings: ContextSettings) -> HistoryView:
    """Head, overlays and tail in so many tokens.

    The tail comes first: it holds the newest messages, whole, and gets what head and overlays leave of their
    shares. The head is those of the first messages that the tail does not reach.
    """
    overlays = _fit_overlays([summary for _, summary in gathered.overlays], int(room * settings.overlay_share))
    shares = min(1.0, settings.tail_share + settings.head_share + settings.overlay_share)
    rest = int(room * shares) - tokens_of(overlays)
    head_room = int(room * settings.head_share)
    first, newest = _apart(gathered, rest, head_room, settings.head_messages)
    head = _fit_head(first, head_room)
    rest -= tokens_of(head)
    tail = _fit_tail(newest, rest)
    note: list[Passage] = []
    if _hidden_count(gathered, [*head, *tail]):
        tail = _fit_tail(newest, rest - _gap_note(gathered.message_count).tokens)
        hidden = _hidden_count(gathered, [*head, *tail])
        note = [_gap_note(hidden)] if hidden else []
        if tokens_of(note) + tokens_of(tail) > rest:
            note = []
    elif gathered.is_whole:
        head, tail = _first_in_head([*head, *tail], len(head), head_room, settings.head_messages)
    return HistoryView(head=_flat(head), overlays=tuple(overlays), tail=(*note, *_flat(tail)))


def _apart(
    gathered: GatheredHistory, rest: int, head_room: int, head_messages: int
) -> tuple[Sequence[Group], Sequence[Group]]:
    """The first messages that the tail does not reach, and the messages that may be in the tail."""
    newest = gathered.newest
    if not gathered.is_whole:
        return gathered.first, newest
    first = leading(newest, head_messages)
    for count in range(len(first)):
        head = _fit_head(first[:count], head_room)
        if len(_fit_tail(newest[count:], rest - tokens_of(head))) == len(newest) - count:
            return first[:count], newest[count:]
    return first, newest[len(first) :]


def _first_in_head(
    shown: list[Group], counted: int, head_room: int, head_messages: int
) -> tuple[list[Group], list[Group]]:
    """A conversation shown from its start: the first messages count as head while they fit its share."""
    most = len(leading(shown, head_messages))
    while counted < most and tokens_of(shown[: counted + 1]) <= head_room:
        counted += 1
    return shown[:counted], shown[counted:]


def _fit_head(groups: Sequence[Group], room: int) -> list[Group]:
    """The first messages, long ones shortened; where even that is too much, the later ones go."""
    for count in range(len(groups), 0, -1):
        together = Group((), tuple(one for group in groups[:count] for one in group.passages)).fitted(room)
        if together is not None:
            passages = iter(together.passages)
            return [Group(group.seqs, tuple(next(passages) for _ in group.passages)) for group in groups[:count]]
    return []


def _fit_tail(groups: Sequence[Group], room: int) -> list[Group]:
    """The newest messages whole; the first that is larger than all the room is cut to what is left of it."""
    if tokens_of(groups) <= room:
        return list(groups)
    tail: list[Group] = []
    rest = room
    for group in reversed(groups):
        shown: Group | None = group
        if group.tokens > rest:
            is_larger_than_all = group.tokens > room and rest * _WORTH_CUTTING >= room
            shown = group.fitted(rest) if is_larger_than_all else None
        if shown is None:
            break
        tail.append(shown)
        rest -= shown.tokens
        if shown is not group:
            break
    return tail[::-1]


def _fit_overlays(summaries: Sequence[Passage], room: int) -> list[Passage]:
    """The summaries, without the oldest where all are too many, and a note for those."""
    if tokens_of(summaries) <= room:
        return list(summaries)
    rest = room - _dropped_note(len(summaries)).tokens
    kept: list[Passage] = []
    for summary in reversed(summaries):
        if summary.tokens > rest and (kept or summary.least > rest):
            break
        kept.append(summary.shortened(rest))
        rest -= kept[-1].tokens
    dropped = len(summaries) - len(kept)
    note = [_dropped_note(dropped)] if dropped and rest >= 0 else []
    return [*note, *reversed(kept)]


def _dropped_note(count: int) -> Passage:
    what = "summary of older messages is" if count == 1 else "summaries of older messages are"
    return passage("user", f"[{count:,} {what} not shown.]")


def _gap_note(count: int) -> Passage:
    what = "earlier message is" if count == 1 else "earlier messages are"
    return passage("user", f"[{count:,} {what} not shown here.]")


def _hidden_count(gathered: GatheredHistory, shown: Sequence[Group]) -> int:
    """How many messages are neither shown nor covered by an overlay."""
    seqs = list(chain.from_iterable(map(attrgetter("seqs"), shown)))
    covered = shown_and_covered = 0
    reached = -1
    for overlay, _ in gathered.overlays:
        begin = max(overlay.from_seq, reached + 1)
        if begin <= overlay.to_seq:
            covered += overlay.to_seq - begin + 1
            shown_and_covered += sum(begin <= seq <= overlay.to_seq for seq in seqs)
            reached = overlay.to_seq
    return max(0, gathered.message_count - len(seqs) - (covered - shown_and_covered))


def _flat(groups: Sequence[Group]) -> tuple[Passage, ...]:
    return tuple(chain.from_iterable(map(attrgetter("passages"), groups)))
