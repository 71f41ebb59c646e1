"""Options that several commands have, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where conversations are kept; before or after the command. Default: PERDURE_DATA_DIR, or ./perdure-data.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AnAgent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Of this agent only.")]
WhoseConversation = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Whose it is; needed where several agents have that id.")
]
AConversation = Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")]


def given_data_dir(context: typer.Context, data_dir: Path | None) -> Path | None:
    """The data directory given after the command, or else before it."""
    return data_dir if data_dir is not None else context.obj


def new_console() -> Console:
    """A console for a terminal, or for whoever reads a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.soft_wrap = True  # whoever reads a pipe wants whole lines
    return console
