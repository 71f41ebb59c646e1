"""What the looking commands print: for people at a terminal, plain lines for a pipe, or JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What would move the cursor, turn the text's direction round or give a terminal orders."""
_WHITE = re.compile(r"\s+")

Cell = str | int | float | None


class Output:
    """Prints to a console."""

    def __init__(self, console: Console, *, as_json: bool = False) -> None:
        self.console = console
        self.as_json = as_json

    def json(self, content: object) -> None:
        """Print one JSON object or list."""
        self.answer(_as_json(content, indent=2))

    def json_line(self, content: object) -> None:
        """Print one JSON object on a line of its own, at once."""
        self.answer(_as_json(content))

    def note(self, text: str) -> None:
        """Print a remark that is no part of the answer."""
        if self.console.is_terminal:
            self.line(text, style="dim")
        else:
            typer.echo(text, err=True)

    def line(self, text: str = "", *, style: str = "", indent: int = 0) -> None:
        """Print a line, or several where the text holds line ends."""
        for part in text.splitlines() or [""]:
            content = Text(printable(part), style=style)
            if self.console.is_terminal:
                self.console.print(Padding(content, (0, 0, 0, indent), expand=False) if part else "")
            else:
                self.console.print(Text(" " * indent).append_text(content))

    def answer(self, text: str) -> None:
        """Print a text and see that it is out at once: as it is into a pipe, harmless on a terminal."""
        file = self.console.file
        file.write(f"{printable(text) if self.console.is_terminal else text}\n")
        file.flush()

    @staticmethod
    def complain(text: str) -> None:
        """Say on standard error, on one line, what went wrong."""
        typer.echo(f"perdure: {one_line(text)}", err=True)

    @staticmethod
    def agrees(question: str) -> bool:
        """Ask on standard error, so that the answer stays clean; an end of the input is a no."""
        typer.echo(f"{question} [y/N]: ", nl=False, err=True)
        return sys.stdin.readline().strip().casefold() in ("y", "yes")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Print rows under headings; numbers stand at the right, and what is not known is a `?`."""
        cells = [[one_line("?" if cell is None else _shown(cell)) for cell in row] for row in rows]
        is_number = [
            all(isinstance(row[place], int | float) or row[place] in (None, "") for row in rows)
            for place in range(len(headings))
        ]
        if self.console.is_terminal:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for heading, right in zip(headings, is_number, strict=True):
                table.add_column(heading, justify="right" if right else "left", overflow="fold")
            for row in cells:
                table.add_row(*map(Text, row))
            self.console.print(table)
            return
        lines = [list(headings), *cells]
        widths = [max(len(line[place]) for line in lines) for place in range(len(headings))]
        for line in lines:
            columns = zip(line, widths, is_number, strict=True)
            text = "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in columns)
            self.console.print(Text(text.rstrip()))


def printable(text: str) -> str:
    """The text without what a terminal would obey: it comes from models, tools and strangers."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, max_chars: int | None = None) -> str:
    """The text on one line, cut to a length."""
    flat = printable(_WHITE.sub(" ", text[: max_chars * 4] if max_chars else text)).strip()
    if max_chars is None or (len(flat) <= max_chars and len(text) <= max_chars * 4):
        return flat
    return f"{flat[: max_chars - 1]}…"


def moment(at: datetime) -> str:
    """A time as it is printed: UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """A number of things; `plural` where it is not made with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _as_json(content: object, indent: int | None = None) -> str:
    text = json.dumps(content, ensure_ascii=False, indent=indent, default=_plain)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _shown(cell: str | float) -> str:
    return cell if isinstance(cell, str) else f"{round(cell):,}"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value)
