"""`perdure inspect`: the processes of live conversations, and what dormant ones have left; none is woken."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from ...storage.layout import conversation_path
from ..client.runtime import Runtime
from .conversations import ConversationRow, conversation_rows
from .known import EVERY, connect_to_existing, known_agent, known_conversation
from .output import Cell, Output, moment, one_line

COLUMNS = ("pid", "memory_mib", "idle_s", "epoch", "turn", "undelivered", "parked", "messages")


def inspect_conversations(
    data_dir: Path | None, conversation_id: str | None, agent: str | None, limit: int, output: Output
) -> None:
    """Print the conversations, the live ones first; of one, everything that is known."""
    with connect_to_existing(data_dir) as runtime:
        if conversation_id is not None:
            [row] = conversation_rows(runtime, [known_conversation(runtime, conversation_id, agent)])
            _print_one(row, runtime, output)
            return
        owner = None if agent is None else known_agent(runtime, agent).name
        rows = conversation_rows(runtime, runtime.conversations(owner, limit=EVERY))
        rows.sort(key=lambda row: row.live is None)
        shown = [(row, _facts(row)) for row in rows[:limit]]  # while the processes are there
    if output.as_json:
        output.json([facts for _, facts in shown])
        return
    headings = ("conversation", "agent", "state", *(name.replace("_", " ") for name in COLUMNS))
    output.table(headings, [_cells(row, facts) for row, facts in shown])
    live = sum(1 for row in rows if row.live)
    output.note(f"{live:,} live, {len(rows) - live:,} dormant" + ("; --limit shows more" if rows[limit:] else ""))


def _cells(row: ConversationRow, facts: Mapping[str, Any]) -> Sequence[Cell]:
    cells = dict(facts)
    if row.live is None:
        cells |= {"pid": "", "memory_mib": "", "idle_s": ""}
    cells["pid"] = str(cells["pid"])  # a name, no number
    cells["turn"] = facts["turn"] or ("" if row.is_exact else None)
    cells["messages"] = row.shown_messages
    return [cells[name] for name in ("conversation_id", "agent", "state", *COLUMNS)]


def memory_mib(pid: int) -> float | None:
    """What a process takes: its proportional set size, where the system tells it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), None)


def _facts(row: ConversationRow) -> dict[str, Any]:
    """What is known of it, by the names of the JSON."""
    live, inspection = row.live, row.live.inspection if row.live else None
    running = next((turn for turn in inspection.open_turns if turn.is_running), None) if inspection else None
    idle_s: float | None = None
    if inspection is not None:
        idle_s = inspection.idle_s
    elif live is not None:
        idle_s = max(0.0, time.time() - live.last_used)
    memory = memory_mib(live.pid) if live else None
    return row.as_json() | {
        "pid": live.pid if live else None,
        "memory_mib": None if memory is None else round(memory, 1),
        "idle_s": None if idle_s is None else round(idle_s, 1),
        "epoch": inspection.epoch if inspection else row.record.epoch,
        "turn": running.turn_id if running else None,
        "open_turns": len(inspection.open_turns) if inspection else row.record.open_turns,
    }


def _print_one(row: ConversationRow, runtime: Runtime, output: Output) -> None:
    record, inspection = row.record, row.live.inspection if row.live else None
    facts = _facts(row)
    path = conversation_path(runtime.place.data_dir, record.agent, record.conversation_id)
    facts["file"] = str(path)
    facts["file_bytes"] = path.stat().st_size if path.exists() else None
    if inspection is not None:
        facts |= {
            "wal_bytes": inspection.wal_bytes,
            "node_id": inspection.node_id,
            "started_at": inspection.started_at,
            "outbox": dict(inspection.outbox),
            "open_turns": [asdict(turn) for turn in inspection.open_turns],
            "parked_messages": [asdict(parked) for parked in inspection.parked],
        }
    if output.as_json:
        output.json(facts)
        return
    if not facts.pop("is_exact"):
        facts["messages"] = f"{row.messages:,} or more: its process was killed"
    width = max(map(len, facts))
    for name, value in facts.items():
        is_told = value is not None or name in ("undelivered", "parked")  # which somebody ought to know
        if is_told and not isinstance(value, list | dict):
            shown = moment(value) if isinstance(value, datetime) else "?" if value is None else str(value)
            output.line(f"{name.replace('_', ' '):<{width}}  {one_line(shown)}")
    if inspection is None:
        return
    for turn in inspection.open_turns:
        state = "running" if turn.is_running else "open"
        output.line(f"turn {one_line(turn.turn_id)}: {state} since {moment(turn.opened_at)}")
    for kind, depth in inspection.outbox.items():
        output.line(f"outbox {one_line(kind)}: {depth:,} undelivered")
    for parked in inspection.parked:
        output.line(f"parked for {one_line(parked.kind)}: message {parked.seq} after {parked.attempts} tries:")
        output.line(parked.error, indent=4)
