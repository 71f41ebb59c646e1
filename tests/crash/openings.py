"""Which process held which conversation's file, and when: what shows that never two did at once.

The log is written inside the actors (`injected/sitecustomize.py`), once a file is open and before it is let go of,
and by the killer, before it kills. So each span of the log lies within the real one: two that overlap were two
processes that held one conversation. Times are `time.monotonic_ns`, which all processes of a machine share.
"""

from __future__ import annotations

import functools
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .effect_log import append_line, read_lines

Ending = Literal["closed", "killed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A process held a conversation's file."""

    conversation_id: str
    process: str
    epoch: int
    opened_at_ns: int
    ended_at_ns: int | None
    """None: nobody has seen its end."""
    ending: Ending


def process_name(pid: int) -> str:
    """A name that no other process has, though its number is given again; empty when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return f"{pid}.{stat.rpartition(')')[2].split()[19]}"  # with the time of its start


def watch_openings(log: Path) -> None:
    """Note, from here on, which conversation files this process opens and lets go of."""
    from perdure.storage.conversation_store import ConversationStore

    open_store, close_store = ConversationStore.open.__func__, ConversationStore.close  # type: ignore[attr-defined]
    me = process_name(os.getpid())
    held: dict[int, str] = {}

    @functools.wraps(open_store)
    def open_and_note(cls: type, path: Path, identity: Any, *arguments: Any, **named: Any) -> Any:
        store = open_store(cls, path, identity, *arguments, **named)
        epoch = named.get("epoch", arguments[2] if len(arguments) > 2 else None)
        held[id(store)] = str(identity.conversation_id)
        note_moment(log, "opened", str(identity.conversation_id), me, epoch or 0)
        return store

    @functools.wraps(close_store)
    def note_and_close(store: Any) -> None:
        if id(store) in held:
            note_moment(log, "closed", held.pop(id(store)), me, 0)
        close_store(store)

    ConversationStore.open = classmethod(open_and_note)  # type: ignore[assignment, method-assign]
    ConversationStore.close = note_and_close  # type: ignore[assignment, method-assign]


def note_moment(log: Path, moment: str, conversation_id: str, process: str, epoch: int) -> None:
    """Append a line. The system keeps it, whatever becomes of the process: only a machine's crash would lose it."""
    append_line(log, f"{moment} {process} {epoch} {time.monotonic_ns()} {conversation_id}", sync=False)


def read_holdings(log: Path) -> Sequence[Holding]:
    """All holdings so far, in the order in which they began."""
    begun: dict[tuple[str, str], tuple[int, int]] = {}
    killed: dict[str, int] = {}
    found: list[Holding] = []

    def ended(process: str, conversation_id: str, ended_at_ns: int | None, ending: Ending) -> None:
        epoch, opened_at_ns = begun.pop((process, conversation_id))
        found.append(
            Holding(
                conversation_id=conversation_id,
                process=process,
                epoch=epoch,
                opened_at_ns=opened_at_ns,
                ended_at_ns=ended_at_ns,
                ending=ending,
            )
        )

    for line in read_lines(log):
        moment, process, epoch, at_ns, conversation_id = line.split(" ", 4)
        if moment == "killed":
            killed.setdefault(process, int(at_ns))
        elif moment == "opened":
            begun[process, conversation_id] = int(epoch), int(at_ns)
        elif (process, conversation_id) in begun:
            ended(process, conversation_id, int(at_ns), "closed")
    for process, conversation_id in list(begun):
        at_ns_killed = killed.get(process)
        ended(process, conversation_id, at_ns_killed, "unknown" if at_ns_killed is None else "killed")
    return sorted(found, key=lambda holding: holding.opened_at_ns)


def passivations(holdings: Sequence[Holding]) -> int:
    """How many processes ended in order: their last word is that they let go of the file."""
    last = {holding.process: holding.ending for holding in holdings}
    return sum(ending == "closed" for ending in last.values())


def second_openers(holdings: Sequence[Holding], alive_until_ns: Mapping[str, int]) -> Iterator[str]:
    """What shows that a conversation had two processes: spans that overlap, or an epoch that does not rise.

    Args:
        alive_until_ns: When processes that have not ended were last seen alive, by name.
    """
    by_conversation: dict[str, list[Holding]] = defaultdict(list)
    for holding in holdings:
        by_conversation[holding.conversation_id].append(holding)
    for conversation_id, spans in by_conversation.items():
        for place, later in enumerate(spans):
            for earlier in spans[:place]:
                end_ns = earlier.ended_at_ns or alive_until_ns.get(earlier.process, earlier.opened_at_ns)
                if later.opened_at_ns < end_ns and later.process != earlier.process:
                    both_ms = (end_ns - later.opened_at_ns) / 1e6
                    yield f"{conversation_id}: {later.process} had it {both_ms:.0f} ms before {earlier.process} let go"
            if place and later.epoch <= spans[place - 1].epoch:
                yield f"{conversation_id}: epoch {later.epoch} of {later.process} follows {spans[place - 1].epoch}"
