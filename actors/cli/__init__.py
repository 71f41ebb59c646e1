"""The command `perdure`.

A command imports what it needs when it runs, so that `perdure --help` answers at once.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...storage.errors import PerdureError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell reports it."""

app = typer.Typer(
    name="perdure",
    help="Durable-actor runtime for agent conversations.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where conversations are kept; before or after the command. Default: PERDURE_DATA_DIR, or ./perdure-data.",
    ),
]


def main() -> None:
    """Run the command line; an error of ours is one line on standard error and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another one
    try:
        app()
    except PerdureError as error:
        typer.echo(f"perdure: {' '.join(str(error).split())}", err=True)
        sys.exit(1)


def _print_version(is_asked_for: bool) -> None:
    if is_asked_for:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"perdure {version('perdure')}")
        except PackageNotFoundError:
            typer.echo("perdure, not installed as a package")
        raise typer.Exit


@app.callback()
def _perdure(
    context: typer.Context,
    data_dir: DataDir = None,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    context.obj = data_dir


@app.command("demo")
def _demo(context: typer.Context, data_dir: DataDir = None) -> None:
    """Show what the runtime does: turns, tools, a kill -9 in mid-turn, a restart of everything.

    It needs no key and no network, and works in a new temporary directory unless --data-dir is given.
    """
    from .demo import run_demo

    run_demo(_given(context, data_dir), _console())


@app.command("replay")
def _replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, or LoCoMo's JSON; .gz too.")],
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; made if it is new.")],
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", metavar="PREFIX", help="Put before the conversations' names in the file."),
    ] = None,
    contact: Annotated[
        str | None, typer.Option("--contact", metavar="ID", help="The person at the other end, in all of them.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Take the first N messages of the file only.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Bring the conversations of a file into an agent; no model runs.

    Ctrl-C stops it at any moment; the same command again goes on, and stores nothing twice.

    Each line of a file of JSON lines is a message: role (user, assistant or system), text, created_at (ISO 8601),
    and optionally speaker, id and conversation. A LoCoMo file is a list of samples, each one conversation.
    """
    from .replay import Replay

    completed = Replay(
        path=file,
        agent=agent,
        prefix=conversation or None,
        contact=contact,
        limit=limit,
        data_dir=_given(context, data_dir),
    ).run(_console())
    if not completed:
        raise typer.Exit(INTERRUPTED)


def _given(context: typer.Context, data_dir: Path | None) -> Path | None:
    """The data directory given after the command, or else before it."""
    return data_dir if data_dir is not None else context.obj


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.soft_wrap = True  # whoever reads a pipe wants whole lines
    return console
