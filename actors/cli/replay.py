"""`perdure replay`: the conversations of a file into an agent, batch by batch, so that it can stop and go on."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ...jobs.conversation import ImportedMessage
from ...storage.errors import InvalidInputError
from ...storage.settings_sources import read_settings
from ...storage.text import storable_id
from ..client.runtime import Runtime, connect, default_data_dir
from .transcript import TranscriptMessage, read_transcript

BATCH = 200
"""Messages of a conversation that are sent at a time; each batch is one commit."""
MANY_CONVERSATIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is to be brought where."""

    path: Path
    agent: str
    prefix: str | None = None
    contact: str | None = None
    limit: int | None = None
    """Messages of the file; None: all."""
    data_dir: Path | None = None
    """None: `PERDURE_DATA_DIR`, or `./perdure-data`."""

    def run(self, console: Console) -> bool:
        """Bring it there, and say so. False when Ctrl-C stopped it.

        The whole file is read and checked first: of a file with a fault, nothing is stored.

        Raises:
            InvalidInputError: The file cannot be used; the error names the place.
            PerdureError: As `connect` and `import_messages`.
        """
        progress = _Progress()
        with _Interruption() as interruption:
            try:
                self._check(progress, interruption)
            except _Stopped:
                console.print("Stopped while the file was checked; nothing was stored.")
                return False
            console.print(f"{self.path}: {_amount(progress.in_file)}, checked.")
            try:
                with connect(self._chosen_dir) as runtime:
                    self._bring(runtime, progress, console, interruption)
                    self._report(runtime, progress, console)
                return True
            except _Stopped:
                pass  # said below
            except Exception:
                if not interruption.is_repeated:
                    raise
                # It was stopped inside of somebody's code, which made an error of its own of it.
            finally:
                if progress.stored < progress.in_file.total():
                    console.print(
                        f"Stopped. At least {progress.stored:,} of {progress.in_file.total():,} messages are stored;"
                        " the same command again goes on, and stores nothing twice."
                    )
        return False

    def _check(self, progress: _Progress, interruption: _Interruption) -> None:
        """Read the whole file, and count its messages."""
        settings = read_settings(self._chosen_dir)
        storable_id(self.agent, "--agent")
        for entry in self._entries(settings.turn.max_text_chars):
            interruption.check()
            progress.in_file[entry.conversation] += 1
        if not progress.in_file:
            raise InvalidInputError(str(self.path), "it holds no message", "give a file with messages")

    def _bring(self, runtime: Runtime, progress: _Progress, console: Console, interruption: _Interruption) -> None:
        if len(progress.in_file) > MANY_CONVERSATIONS:
            console.print("Each conversation takes a process, of about 75 MiB, until this command ends.")
        interruption.check()
        agent = runtime.agent(self.agent)
        entries = self._entries(runtime.place.settings.turn.max_text_chars)
        with _shown(progress.in_file.total(), console) as show:
            for conversation, messages in _batches(entries):
                interruption.check()
                chat = agent.conversation(conversation, self.contact)
                progress.new[conversation] += chat.import_messages(messages)
                progress.stored += len(messages)
                show(progress.stored)

    def _report(self, runtime: Runtime, progress: _Progress, console: Console) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("conversation", overflow="fold")
        for heading in ("in the file", "new", "messages now"):
            table.add_column(heading, justify="right", no_wrap=True)
        agent = runtime.agent(self.agent)
        for name, count in progress.in_file.items():
            now = agent.conversation(name).inspect().messages
            table.add_row(Text(name), f"{count:,}", f"{progress.new[name]:,}", f"{now:,}")
        console.print(table)
        console.print(f"Stored in {runtime.data_directory.path} for the agent {self.agent!r}.")

    def _entries(self, max_text_chars: int) -> Iterator[TranscriptMessage]:
        return islice(read_transcript(self.path, max_text_chars, prefix=self.prefix), self.limit)

    @property
    def _chosen_dir(self) -> Path:
        return self.data_dir if self.data_dir is not None else default_data_dir()


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far it is."""

    in_file: Counter[str] = field(default_factory=Counter)
    """Messages by conversation."""
    new: Counter[str] = field(default_factory=Counter)
    """Those of them that were not stored before."""
    stored: int = 0
    """Messages of the file that are known to be stored, whoever stored them."""


def _batches(entries: Iterator[TranscriptMessage]) -> Iterator[tuple[str, list[ImportedMessage]]]:
    """The messages by conversation, each conversation's in order, where the file mixes them."""
    waiting: dict[str, list[ImportedMessage]] = {}
    for entry in entries:
        batch = waiting.setdefault(entry.conversation, [])
        batch.append(entry.message)
        if len(batch) == BATCH:
            yield entry.conversation, waiting.pop(entry.conversation)
    yield from waiting.items()


class _Stopped(BaseException):
    """Ctrl-C was pressed; no error, so nobody makes one of it."""


class _Interruption:
    """Ctrl-C: the first waits for what is under way, since that takes moments; the second waits for nothing."""

    def __init__(self) -> None:
        self.is_requested = False
        self.is_repeated = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        self._previous = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def check(self) -> None:
        """Raises `_Stopped` once Ctrl-C was pressed."""
        if self.is_requested:
            raise _Stopped

    def _request(self, _: int, __: FrameType | None) -> None:
        if self.is_requested:
            self.is_repeated = True
            raise _Stopped
        self.is_requested = True
        os.write(2, b"\nStopping, which takes a moment. Ctrl-C again stops at once.\n")  # safe inside of a print


@contextmanager
def _shown(total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Shows how many messages are stored: a bar on a terminal, else a line at every tenth of the whole."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("messages", total=total)
            yield lambda stored: bar.update(task, completed=stored)
        return
    tenths = 0

    def print_line(stored: int) -> None:
        nonlocal tenths
        if stored * 10 // total > tenths:
            tenths = stored * 10 // total
            console.print(f"{stored:,} of {total:,} messages")

    yield print_line


def _amount(in_file: Counter[str]) -> str:
    messages = f"{in_file.total():,} message{'s' if in_file.total() != 1 else ''}"
    return f"{messages} in {len(in_file):,} conversation{'s' if len(in_file) != 1 else ''}"
