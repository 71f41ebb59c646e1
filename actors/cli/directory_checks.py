"""What `perdure doctor` finds in the directory: missing files, undelivered messages, models without their key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ...storage.agent_options import AgentOptions
from ...storage.data_directory import DataDirectory
from ...storage.directory_records import AgentRecord, ConversationRecord
from ...storage.directory_store import DirectoryStore
from ...storage.errors import PerdureError, StorageError
from ...storage.layout import conversation_path, directory_path
from ...storage.settings import Settings
from ...storage.settings_sources import settings_as_mapping
from ..client.runtime import Runtime, connect
from .conversations import ConversationRow, conversation_rows
from .findings import Finding, ok, problem, warning
from .known import EVERY, handle_of
from .output import amount, one_line

NAMED = 5
"""Findings of one kind that are told one by one."""
LOOK_S = 30.0
KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""The variables of which litellm reads one, by the first part of a model's name."""
NEEDS_NOTHING = ("scripted/", "python/", "embedded")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    agents: Sequence[AgentRecord]
    rows: Sequence[ConversationRow]
    parked: Sequence[str]
    """What is parked, one line each, as far as it could be read."""


def check_directory(path: Path, settings: Settings, *, is_served: bool) -> Iterator[Finding]:
    """What the directory tells; its owner is asked if there is one, and read in its place if there is none.

    Args:
        settings: Those in force.
    """
    try:
        known = _ask_owner(path, settings) if is_served else _read(path)
    except PerdureError as error:
        text = error.problem if isinstance(error, StorageError) else str(error)
        yield problem("directory", f"it could not be read: {text}", f"see {path / 'run' / 'host.log'}")
        return
    yield ok("directory", f"{amount(len(known.agents), 'agent')}, {amount(len(known.rows), 'conversation')}")
    yield from _missing_files(path, known.rows)
    yield from _outbox(known, settings)
    for agent in known.agents:
        yield from _model(agent, settings)


def _ask_owner(path: Path, settings: Settings) -> _Known:
    with connect(path, settings=settings_as_mapping(settings)) as runtime:
        rows = conversation_rows(runtime, runtime.conversations(limit=EVERY))
        holders = [row for row in rows if row.parked]
        parked = [line for row in holders[:NAMED] for line in _parked(runtime, row)]
        parked += [f"{_name(row.record)}: {amount(row.parked or 0, 'message')}" for row in holders[NAMED:]]
        return _Known(agents=runtime.agents(), rows=rows, parked=parked)


def _parked(runtime: Runtime, row: ConversationRow) -> list[str]:
    """The parked messages of a conversation with their errors, which its file holds: a dormant one is started."""
    inspection = row.live.inspection if row.live else None
    if inspection is None:
        inspection = handle_of(runtime, row.record).inspect(timeout_s=LOOK_S)
    return [
        f"{_name(row.record)}: message {parked.seq} for {parked.kind}: {parked.error}" for parked in inspection.parked
    ]


def _read(path: Path) -> _Known:
    """The directory's file itself, held so that no runtime starts meanwhile."""
    directory = DataDirectory.prepare(path)
    directory.hold()
    try:
        with closing(DirectoryStore.open(directory_path(directory.path))) as store:
            rows = [ConversationRow(record=record, live=None) for record in store.conversations(None, EVERY, 0)]
            agents = store.agents()
    finally:
        directory.release()
    parked = [f"{_name(row.record)}: {amount(row.parked, 'message')}" for row in rows if row.parked]
    return _Known(agents=agents, rows=rows, parked=parked)


def _missing_files(path: Path, rows: Sequence[ConversationRow]) -> Iterator[Finding]:
    stored = [row.record for row in rows if row.record.has_file]
    missing = [
        (record, file)
        for record in stored
        if not (file := conversation_path(path, record.agent, record.conversation_id)).exists()
    ]
    for record, file in missing[:NAMED]:
        text = f"the file of {_name(record)} is gone: {file}"
        yield problem("conversation files", text, "restore it from a backup; its conversation is refused until then")
    if len(missing) > NAMED:
        text = f"{amount(len(missing) - NAMED, 'more file')} of conversations are gone"
        yield problem("conversation files", text, "restore the data directory from a backup")
    if not missing:
        yield ok("conversation files", f"all {len(stored):,} are there")


def _outbox(known: _Known, settings: Settings) -> Iterator[Finding]:
    if known.parked:
        remedy = "put the cause right and deliver it again with `chat.retry_parked()`"
        for line in known.parked[:NAMED]:
            yield warning("outbox", f"parked in {line}", remedy)
        if len(known.parked) > NAMED:
            text = f"{amount(len(known.parked) - NAMED, 'line')} more like these"
            yield warning("outbox", text, "`perdure conversations` counts them")
    if not (settings.outbox.index or settings.outbox.consumers):
        yield ok("outbox", "nobody follows the messages")
        return
    waiting = [row for row in known.rows if row.undelivered]
    unknown = sum(1 for row in known.rows if row.undelivered is None)
    later = f", {unknown:,} to be looked at by the next sweep" if unknown else ""
    if waiting:
        text = f"{sum(row.undelivered or 0 for row in waiting):,} messages of {amount(len(waiting), 'conversation')}"
        remedy = "they are delivered while a runtime is up (`perdure up`); if they stay, see `perdure inspect`"
        yield warning("outbox", f"{text} are undelivered{later}", remedy)
    else:
        yield ok("outbox", f"nothing is known to be undelivered{later}")


def _model(agent: AgentRecord, settings: Settings) -> Iterator[Finding]:
    model = AgentOptions.from_json(agent.options).model or "embedded"
    subject, shown = f"agent {one_line(agent.name, 60)}", one_line(model, 60)
    provider = model.partition("/")[0] if "/" in model else ""
    if model.startswith(NEEDS_NOTHING):
        yield ok(subject, f"model {shown}")
    elif settings.models.api_base:
        yield ok(subject, f"model {shown}, at {settings.models.api_base}")
    elif provider not in KEYS:
        yield ok(subject, f"model {shown}; what it needs is for litellm to say")
    elif any(os.environ.get(variable) for variable in KEYS[provider]):
        yield ok(subject, f"model {shown}; its key is in this environment")
    else:
        text = f"model {shown}; {' or '.join(KEYS[provider])} is not in this environment"
        yield warning(subject, text, "set it in the environment of the process that starts the runtime")


def _name(record: ConversationRecord) -> str:
    return f"conversation {record.conversation_id!r} of agent {record.agent!r}"
