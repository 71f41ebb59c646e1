"""The commands as the command line declares them; each loads what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AConversation, AnAgent, AsJson, DataDir, WhoseConversation, given_data_dir, new_console

if TYPE_CHECKING:
    from .output import Output

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell reports it."""


def demo(context: typer.Context, data_dir: DataDir = None) -> None:
    """Show what the runtime does: turns, tools, a kill -9 in mid-turn, a restart of everything.

    It needs no key and no network, and works in a new temporary directory unless --data-dir is given.
    """
    from .demo import run_demo

    run_demo(given_data_dir(context, data_dir), new_console())


def replay(
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
        data_dir=given_data_dir(context, data_dir),
    ).run(new_console())
    if not completed:
        raise typer.Exit(INTERRUPTED)


def chat(
    context: typer.Context,
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; made if it is new.")],
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", metavar="ID", help="The conversation; made if it is new. Default: 'default'."),
    ] = None,
    contact: Annotated[
        str | None, typer.Option("--contact", metavar="ID", help="The person at the other end, of a new one.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="The agent's model from now on, as litellm names it."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Talk to an agent.

    /quit, Ctrl-D and Ctrl-C end it; /retry sends a turn that failed again. Ctrl-C while a reply comes stops waiting
    for it only: the turn goes on and is stored.

    From a pipe, each line is a turn, and only the replies are printed; with --json, as one object a line.
    """
    from .chat import ChatRequest, run_chat

    request = ChatRequest(
        agent=agent,
        conversation=conversation,
        contact=contact,
        model=model,
        data_dir=given_data_dir(context, data_dir),
    )
    raise typer.Exit(run_chat(request, _output(as_json=as_json)))


def agents(context: typer.Context, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the agents."""
    from .conversations import list_agents

    list_agents(given_data_dir(context, data_dir), _output(as_json=as_json))


def conversations(
    context: typer.Context,
    agent: AnAgent = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The last used N.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List the conversations, the last used first. None is woken."""
    from .conversations import list_conversations

    list_conversations(given_data_dir(context, data_dir), agent, limit, _output(as_json=as_json))


def show(
    context: typer.Context,
    conversation: AConversation,
    agent: WhoseConversation = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The newest N messages.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print a conversation's messages and tool calls; with --json, uncut."""
    from .show import show_conversation

    show_conversation(given_data_dir(context, data_dir), conversation, agent, limit, _output(as_json=as_json))


def context_view(
    context: typer.Context,
    conversation: AConversation,
    agent: WhoseConversation = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="As if this were sent now.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print what the model would see of a conversation, part by part, with tokens. No model runs."""
    from .context_view import show_context

    show_context(given_data_dir(context, data_dir), conversation, agent, text, _output(as_json=as_json))


def inspect(
    context: typer.Context,
    conversation: Annotated[
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Its id; all, where it is left out.")
    ] = None,
    agent: AnAgent = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="N of them, the live ones first.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print processes, memory, turns at work and outbox of conversations. None is woken."""
    from .inspection import inspect_conversations

    inspect_conversations(given_data_dir(context, data_dir), conversation, agent, limit, _output(as_json=as_json))


def doctor(context: typer.Context, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Look for what is wrong, and say how to put it right. Exit status 1 if there is a problem.

    No runtime is started for it; one that serves the data directory is asked.
    """
    from .doctor import examine

    raise typer.Exit(examine(given_data_dir(context, data_dir), _output(as_json=as_json)))


def up(context: typer.Context, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Start a local runtime that stays until `perdure down`, or keep the one that is there."""
    from .host_commands import start_host

    start_host(given_data_dir(context, data_dir), _output(as_json=as_json))


def down(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Though clients are attached.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """End the local runtime of the data directory."""
    from .host_commands import end_host

    end_host(given_data_dir(context, data_dir), is_forced=force, output=_output(as_json=as_json))


def status(context: typer.Context, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Say whether a local runtime serves the data directory. Exit status 0 if so, else 3."""
    from .host_commands import host_status

    raise typer.Exit(host_status(given_data_dir(context, data_dir), _output(as_json=as_json)))


def _output(*, as_json: bool) -> Output:
    from .output import Output

    return Output(new_console(), as_json=as_json)
