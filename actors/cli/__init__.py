"""The command `perdure`.

A command imports what it needs when it runs, so that `perdure --help` answers at once.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from ...storage.errors import PerdureError
from . import commands, memory_commands
from .options import DataDir

app = typer.Typer(
    name="perdure",
    help="Durable-actor runtime for agent conversations.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line; an error of ours is one line on standard error and exit status 1."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
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


_COMMANDS: Mapping[str, Callable[..., None]] = {
    "demo": commands.demo,
    "chat": commands.chat,
    "agents": commands.agents,
    "conversations": commands.conversations,
    "show": commands.show,
    "context": commands.context_view,
    "inspect": commands.inspect,
    "doctor": commands.doctor,
    "replay": commands.replay,
    "up": commands.up,
    "down": commands.down,
    "status": commands.status,
}
memories_app = typer.Typer(
    name="memories", help="Look at what agents remember.", no_args_is_help=True, rich_markup_mode=None
)
_MEMORY_COMMANDS: Mapping[str, Callable[..., None]] = {
    "list": memory_commands.list_,
    "search": memory_commands.search,
    "history": memory_commands.history,
    "forget": memory_commands.forget,
}
for _name, _command in _MEMORY_COMMANDS.items():
    memories_app.command(_name)(_command)
app.add_typer(memories_app)
app.command("reindex")(memory_commands.reindex)
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
