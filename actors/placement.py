"""Names, options and look-up of the actors: the one place that says how each kind runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from ..storage.records import AgentName, ContactId, ConversationId
from ..storage.settings import Settings

if TYPE_CHECKING:
    from ..storage.memory_index_records import IndexKind

DIRECTORY = "directory"
MEMORY = "memory"
VECTOR_INDEX = "vector-index"
KEYWORD_INDEX = "keyword-index"
CONCURRENT_CALLS = 1000
"""Of an asynchronous actor: calls under way at a time; further ones queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlace:
    """Where a runtime lives: what its actors need to find its files and each other."""

    namespace: str
    """Of its actors; derived from the runtime's id."""
    data_dir: Path
    settings: Settings
    node_id: str | None = None
    """Ray's id of the node that holds the data directory. None: the one that this process is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPlace:
    """Which conversation an actor holds, and where its file is."""

    agent: AgentName
    conversation_id: ConversationId
    contact: ContactId | None
    """As given by the first opener; the stored one decides."""

    @property
    def actor_name(self) -> str:
        """The actor's name: unique, whatever the ids contain."""
        agent, conversation_id = (quote(part, safe=" ") for part in (self.agent, self.conversation_id))
        return f"conversation/{agent}/{conversation_id}"


def conversation_ids(actor_name: str) -> tuple[AgentName, ConversationId]:
    """Agent and id of the conversation that has an actor of this name."""
    _, agent, conversation_id = actor_name.split("/")
    return AgentName(unquote(agent)), ConversationId(unquote(conversation_id))


def runtime_namespace(runtime_id: str) -> str:
    """The Ray namespace of a runtime's actors."""
    return f"perdure-{runtime_id}"


def models_name(replica: int) -> str:
    """Name of one process of the `models` pool."""
    return f"models/{replica}"


def directory_actor(place: RuntimePlace) -> Any:
    """The handle of the directory, started if need be."""
    from .directory import Directory

    return (
        _actor_class(Directory, max_task_retries=-1)
        .options(
            name=DIRECTORY,
            namespace=place.namespace,
            lifetime="detached",
            get_if_exists=True,
            scheduling_strategy=_beside_the_files(place),
        )
        .remote(place)
    )


def memory_actor(place: RuntimePlace) -> Any:
    """The handle of the owner of all memories, started if need be."""
    from .memory import MemoryProcess

    return _singleton(place, MEMORY, MemoryProcess)


def index_actor(place: RuntimePlace, kind: IndexKind) -> Any:
    """The handle of an index's owner, started if need be."""
    if kind == "vector":
        from .vector_index import VectorIndexProcess

        return _singleton(place, VECTOR_INDEX, VectorIndexProcess)
    from .keyword_index import KeywordIndexProcess

    return _singleton(place, KEYWORD_INDEX, KeywordIndexProcess)


def _singleton(place: RuntimePlace, name: str, kind: type) -> Any:
    """An asynchronous actor beside the files. Its calls are not retried by Ray: the caller decides."""
    return (
        _actor_class(kind)
        .options(
            max_concurrency=CONCURRENT_CALLS,
            name=name,
            namespace=place.namespace,
            lifetime="detached",
            get_if_exists=True,
            scheduling_strategy=_beside_the_files(place),
        )
        .remote(place)
    )


def models_actor(place: RuntimePlace, replica: int) -> Any:
    """The handle of one process of the `models` pool, started if need be.

    Its calls are not retried by Ray: the caller decides (`models_client.py`).
    """
    from .models import Models

    return (
        _actor_class(Models)
        .options(
            max_concurrency=place.settings.models.concurrency,
            name=models_name(replica),
            namespace=place.namespace,
            lifetime="detached",
            get_if_exists=True,
        )
        .remote(place.settings, replica)
    )


def conversation_actor(place: RuntimePlace, conversation: ConversationPlace) -> Any:
    """The handle of a conversation's actor, started if need be.

    Its calls are repeated by Ray after a crash, at least once: each is idempotent under an id. The `control`
    group answers while a turn runs.
    """
    from .conversation import ConversationProcess

    return (
        _actor_class(ConversationProcess, max_task_retries=-1, control_threads=2)
        .options(
            name=conversation.actor_name,
            namespace=place.namespace,
            lifetime="detached",
            get_if_exists=True,
            scheduling_strategy=_beside_the_files(place),
        )
        .remote(place, conversation)
    )


def _beside_the_files(place: RuntimePlace) -> Any:
    """Owners of files stay on the node that has the files: elsewhere, a restarted one would open an empty one."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node_id = place.node_id or ray.get_runtime_context().get_node_id()
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


@cache
def _actor_class(kind: type, *, max_task_retries: int = 0, control_threads: int = 0) -> Any:
    """A plain class as an actor class: it restarts for ever, and holds no processor while it waits."""
    import ray

    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": max_task_retries}
    if control_threads:
        options["concurrency_groups"] = {"control": control_threads}
    return cast(Any, ray.remote)(**options)(kind)
