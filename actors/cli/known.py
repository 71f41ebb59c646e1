"""What exists: the runtime of a data directory that is there already, and its agents and conversations by name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from ...storage.directory_records import AgentRecord, ConversationRecord
from ...storage.errors import InvalidInputError
from ...storage.layout import directory_path
from ...storage.text import storable_id
from ..client.conversation import ConversationHandle
from ..client.runtime import Runtime, connect, default_data_dir
from .output import one_line

EVERY = 10_000_000
"""More conversations than a directory holds."""
NAMED = 3
"""Names that an error offers instead."""


def chosen_dir(data_dir: Path | None) -> Path:
    """The data directory given, or the default one."""
    return (data_dir if data_dir is not None else default_data_dir()).expanduser().absolute()


def connect_to_existing(data_dir: Path | None) -> Runtime:
    """The runtime of a data directory; none is made where there is nothing to look at.

    Raises:
        InvalidInputError: Nothing is stored there.
        PerdureError: As `connect`.
    """
    path = chosen_dir(data_dir)
    if not directory_path(path).exists():
        raise InvalidInputError("--data-dir", f"nothing is stored in {path}", "name the directory that `connect` uses")
    return connect(path)


def known_agent(runtime: Runtime, name: str) -> AgentRecord:
    """An agent that exists.

    Raises:
        InvalidInputError: None has that name; the error names those that are close.
    """
    agents = {str(agent.name): agent for agent in runtime.agents()}
    key = storable_id(name, "--agent")
    if key not in agents:
        raise InvalidInputError("--agent", f"there is no agent {name!r}", _instead(name, agents, "agent"))
    return agents[key]


def known_conversation(runtime: Runtime, conversation_id: str, agent: str | None) -> ConversationRecord:
    """A conversation that exists.

    Raises:
        InvalidInputError: There is none of that id, or several agents have one; the error names what there is.
    """
    owner = None if agent is None else known_agent(runtime, agent).name
    same_id = runtime.conversations_of_id(conversation_id)
    found = [record for record in same_id if owner in (None, record.agent)]
    if len(found) == 1:
        return found[0]
    if found:
        owners = ", ".join(repr(record.agent) for record in found)
        raise InvalidInputError(
            "--agent", f"conversation {conversation_id!r} exists under {len(found)} agents", f"name one of {owners}"
        )
    whose = "there is" if owner is None else f"agent {agent!r} has"
    problem = f"{whose} no conversation {conversation_id!r}"
    if same_id:
        remedy = f"{', '.join(repr(record.agent) for record in same_id)} has one"
    else:
        every = runtime.conversations(owner, limit=EVERY)
        remedy = _instead(conversation_id, (record.conversation_id for record in every), "conversation")
    raise InvalidInputError("CONVERSATION", problem, remedy)


def handle_of(runtime: Runtime, record: ConversationRecord) -> ConversationHandle:
    """The handle of a conversation that exists; the first call on it starts its process."""
    return runtime.agent(record.agent).conversation(record.conversation_id)


def _instead(name: str, there: Iterable[str], noun: str) -> str:
    names = sorted(set(there))
    if not names:
        return f"there is no {noun} yet"
    folded: dict[str, str] = {}
    for one in names:
        folded.setdefault(one.casefold(), one)
    close = [folded[match] for match in get_close_matches(name.casefold(), folded, n=NAMED, cutoff=0.6)]
    if close:
        return f"did you mean {' or '.join(repr(one_line(one, 60)) for one in close)}?"
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"there are {', '.join(repr(one_line(one, 60)) for one in names[:NAMED])}{more}"
