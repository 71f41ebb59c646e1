"""`perdure show`: a conversation from its messages, oldest first, with what its tools did."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from ...storage.directory_records import ConversationRecord
from ...storage.records import StoredMessage, ToolCall
from ..calls import Inspection, OpenTurn
from .known import connect_to_existing, handle_of, known_conversation
from .output import Output, amount, moment, one_line
from .timeline import Entry, entries

TEXT_CHARS = 2_000
CALL_CHARS = 200
RESULT_CHARS = 300


def show_conversation(
    data_dir: Path | None, conversation_id: str, agent: str | None, limit: int, output: Output
) -> None:
    """Print the newest messages of a conversation."""
    with connect_to_existing(data_dir) as runtime:
        record = known_conversation(runtime, conversation_id, agent)
        chat = handle_of(runtime, record)
        messages = chat.history(limit)
        inspection = chat.inspect()
    if output.as_json:
        output.json(
            {
                "conversation_id": record.conversation_id,
                "agent": record.agent,
                "contact": inspection.identity.contact,
                "message_count": inspection.messages,
                "messages": [_as_json(message) for message in messages],
                "open_turns": [asdict(turn) for turn in inspection.open_turns],
            }
        )
        return
    output.line(_heading(record, inspection), style="bold")
    if len(messages) < inspection.messages:
        output.note(f"the newest {len(messages):,}; --limit shows more")
    for entry in entries(messages):
        _print(entry, output)
    for turn in inspection.open_turns:
        output.line(_open(turn), style="yellow")


def one_line_of_call(call: ToolCall) -> str:
    """A tool call with its arguments, cut."""
    return f"{one_line(call.name)} {one_line(call.arguments, CALL_CHARS)}"


def _heading(record: ConversationRecord, inspection: Inspection) -> str:
    contact = inspection.identity.contact
    who = f", contact {one_line(contact)}" if contact else ""
    whose = f"conversation {one_line(record.conversation_id)} of agent {one_line(record.agent)}"
    return f"{whose}{who}: {amount(inspection.messages, 'message')}"


def _print(entry: Entry, output: Output) -> None:
    message = entry.message
    who = message.role if not message.speaker else f"{message.role} ({one_line(message.speaker)})"
    turn = f"turn {one_line(message.turn_id)}" if message.turn_id else "imported"
    output.line(f"#{message.seq}  {moment(message.created_at)}  {who}  {turn}", style="cyan")
    if message.role == "tool":  # its call is on an earlier page
        output.line(f"{message.tool_name} {message.status}: {one_line(message.content, RESULT_CHARS)}", indent=4)
        return
    if message.content:
        left_out = len(message.content) - TEXT_CHARS
        output.line(message.content[:TEXT_CHARS], indent=4)
        if left_out > 0:
            output.line(f"[… {left_out:,} characters more; --json prints them]", style="dim", indent=4)
    for ran in entry.calls:
        output.line(f"tool {one_line_of_call(ran.call)}", indent=4)
        shown = one_line(ran.result.content, RESULT_CHARS) if ran.result else ""
        output.line(f"{ran.status}{_took(message, ran.result)}: {shown}", style=_style(ran.status), indent=8)


def _took(asked: StoredMessage, result: StoredMessage | None) -> str:
    if result is None:
        return ""
    return f" after {(result.created_at - asked.created_at).total_seconds():.1f} s"


def _style(status: str) -> str:
    return "green" if status == "succeeded" else "red"


def _open(turn: OpenTurn) -> str:
    state = "is running" if turn.is_running else "is open"
    rounds = amount(turn.tool_rounds, "tool round")
    attempts = amount(turn.attempts, "attempt")
    times = f"since {moment(turn.opened_at)}, last step {moment(turn.touched_at)}"
    return f"turn {one_line(turn.turn_id)} {state}: {rounds} stored, {attempts}, {times}"


def _as_json(message: StoredMessage) -> dict[str, object]:
    return {
        name: value
        for name, value in asdict(message).items()
        if isinstance(value, datetime | int) or value not in (None, (), "") or name == "content"
    }
