"""The commands about memories as the command line declares them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .options import AsJson, DataDir, given_data_dir, new_console
from .output import Output

Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose memories.")]
Contact = Annotated[
    str | None,
    typer.Option("--contact", metavar="ID", help="What is seen in a conversation with this contact. Default: all."),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The memory's key, without its scope.")]


def list_(
    context: typer.Context,
    agent: Agent,
    contact: Contact = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The newest N.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List what is remembered now, the newest first."""
    from .memories import list_memories

    list_memories(given_data_dir(context, data_dir), agent, contact, limit, _output(as_json=as_json))


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text.")],
    agent: Agent,
    contact: Contact = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The best N.")] = 10,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print what a query recalls, and which channels found it."""
    from .memories import search_memories

    search_memories(given_data_dir(context, data_dir), agent, contact, query, limit, _output(as_json=as_json))


def history(
    context: typer.Context,
    key: Key,
    agent: Agent,
    contact: Contact = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print every version under a key, and what took the place of each."""
    from .memories import show_history

    show_history(given_data_dir(context, data_dir), agent, contact, key, _output(as_json=as_json))


def forget(
    context: typer.Context,
    key: Key,
    agent: Agent,
    contact: Annotated[
        str | None, typer.Option("--contact", metavar="ID", help="Whose memory it is. Default: agent-wide.")
    ] = None,
    is_sure: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Forget what stands under a key: nothing recalls it any more."""
    from .memories import forget_memory

    forget_memory(
        given_data_dir(context, data_dir), agent, contact, key, is_sure=is_sure, output=_output(as_json=as_json)
    )


def reindex(
    context: typer.Context,
    kind: Annotated[Literal["vector", "keyword", "all"], typer.Option("--kind", help="Which of the indexes.")] = "all",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Make the indexes of memories and messages anew from what is stored, as after a change of the embedding model.

    With `--kind`, that of memories only.
    """
    from .memories import reindex as make_anew

    make_anew(given_data_dir(context, data_dir), () if kind == "all" else (kind,), _output(as_json=as_json))


def _output(*, as_json: bool) -> Output:
    return Output(new_console(), as_json=as_json)
