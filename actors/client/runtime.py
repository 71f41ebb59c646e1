"""`connect`: a runtime, as a driver holds it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from uuid import uuid4

from ...jobs.context import check_system_prompt
from ...jobs.outbox import consumer_places
from ...jobs.scripted_chat import Script, script_to_name
from ...storage.agent_options import AgentOptions
from ...storage.data_directory import DataDirectory
from ...storage.directory_records import AgentRecord, ConversationRecord, JobRun
from ...storage.errors import HostError, InvalidInputError, RuntimeClosedError
from ...storage.records import AgentName, ConversationId
from ...storage.settings import Settings
from ...storage.settings_sources import read_settings
from ...storage.text import clean_text, storable_id
from ..attachment import ATTACHMENT, HostShare, settings_in_force
from ..calls import AgentSnapshot
from ..placement import RuntimePlace, directory_actor, memory_actor, models_actor, runtime_namespace
from ..tool_definition import Tool, as_tool, by_name
from .actor_call import ActorLink, Deadline
from .agent import Agent
from .gate import Gate
from .lane import Lane, run_into
from .live import LIVE_ANSWER_S, LiveConversation, inspect_live
from .pending import unordered_call

Result = TypeVar("Result")
CLOSE_WAIT_S = 5.0
CALL_THREADS = 64
"""Calls that wait for an answer at a time; further ones queue."""


_CODE: dict[tuple[str, AgentName], dict[str, bytes]] = {}
"""By data directory and agent: functions of this script or notebook that were given as tools."""


class Unset:
    """Stands for an option that was not given: it keeps its stored value."""

    def __repr__(self) -> str:
        return "unset"


UNSET = Unset()


def connect(
    data_dir: str | Path | None = None,
    address: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> Runtime:
    """A runtime over a data directory: everything in it is there again, whatever ended the last one.

    Args:
        data_dir: Made if need be; None: `PERDURE_DATA_DIR`, or `./perdure-data`.
        address: None starts a Ray on this machine, which ends with the runtime; `"auto"` or `host:port` uses the
            cluster that this node belongs to.
        settings: By section, such as `{"turn": {"max_tool_rounds": 8}}`; before `PERDURE_*` variables, which go
            before `perdure.toml`.

    Raises:
        SettingsError: A setting is unknown or out of range.
        DataDirectoryError, FileInUseError: The data directory cannot be used, or another runtime does.
        InvalidInputError, ClusterUnreachableError: The address is of no use.
    """
    return Runtime(data_dir, address, settings)


class Runtime:
    """A connected runtime. Close it, or use it as a context manager; what was acknowledged is safe either way."""

    def __init__(self, data_dir: str | Path | None, address: str | None, settings: Mapping[str, Any] | None) -> None:
        chosen = Path(data_dir) if data_dir is not None else default_data_dir()
        wanted = read_settings(chosen, settings)
        consumer_places(wanted.outbox)  # refused here, where somebody sees it
        self.data_directory = DataDirectory.prepare(chosen)
        self._share: HostShare | None = None
        if address is None:
            ATTACHMENT.check_free_for(self.data_directory.path / "run")
            self._share = HostShare.take(self.data_directory.path, wanted)
        try:
            read = wanted
            if self._share is not None:
                read = settings_in_force(self._share.host, chosen, settings, wanted)
                ATTACHMENT.attach(self._share.host.address, with_token=True)
            else:
                ATTACHMENT.attach(str(address), with_token=False)
        except BaseException:
            if self._share is not None:
                self._share.release()
            raise
        runtime_id = self.data_directory.runtime_id(uuid4().hex)
        self.place = RuntimePlace(
            namespace=runtime_namespace(runtime_id), data_dir=self.data_directory.path, settings=read
        )
        self.call_timeout_s = read.conversations.call_timeout_s
        self.executor = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="perdure-call")
        self._gate = Gate(self._check_host)
        self._lock = threading.Lock()
        self._links: dict[str, ActorLink] = {}
        self._lanes: dict[str, Lane] = {}
        self._directory = self.link("directory", lambda: directory_actor(self.place))
        try:
            models_actor(self.place, 0)  # starts beside the rest, so that the first turn need not wait for it
            node_id = self.directory_call("node_id", timeout_s=None)
        except BaseException:
            self.close()
            raise
        self.place = replace(self.place, node_id=node_id)

    def __repr__(self) -> str:
        state = "closed" if self._gate.is_closed else "connected"
        return f"Runtime({str(self.place.data_dir)!r}, {state})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @unordered_call
    def agent(
        self,
        name: str,
        model: str | Script | Unset | None = UNSET,
        system_prompt: str | Unset = UNSET,
        memory: bool | Unset = UNSET,
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] | Unset = UNSET,
        *,
        timeout_s: float | None = None,
    ) -> Agent:
        """An agent: a new one, or the existing one of that name with the options given changed.

        Args:
            name: Unique; any non-empty string.
            model: As litellm names it, such as `openai/gpt-4o-mini`; None: the embedded one, which needs nothing.
            system_prompt: Text.
            memory: Whether it has a long-term memory.
            tools: Functions, with or without `@tool`.

        Raises:
            InvalidInputError: An option cannot be used; the message names it.
        """
        given: dict[str, Any] = {}
        functions: Mapping[str, Tool[..., Any]] = {}
        if not isinstance(model, Unset):
            given["model"] = _checked_model(model)
        if not isinstance(system_prompt, Unset):
            given["system_prompt"] = _checked_prompt(system_prompt, self.place.settings)
        if not isinstance(memory, Unset):
            given["memory"] = _checked_memory(memory)
        if not isinstance(tools, Unset):
            if not isinstance(tools, Iterable):
                raise InvalidInputError("tools", f"a {type(tools).__name__} was given", "give a list of functions")
            functions = by_name(tuple(as_tool(entry) for entry in tools))
            given["tools"] = tuple(entry.record for entry in functions.values())
        key = AgentName(storable_id(name, "name"))
        record, options = self.directory_call("open_agent", key, given, timeout_s=timeout_s)
        code = self._code_of(key, functions, options)
        return Agent(
            self,
            AgentSnapshot(name=key, agent_id=record.agent_id, version=record.version, options=options, code=code),
        )

    @unordered_call
    def agents(self, *, timeout_s: float | None = None) -> Sequence[AgentRecord]:
        """The agents that the data directory knows, by name."""
        return cast("Sequence[AgentRecord]", self.directory_call("agents", timeout_s=timeout_s))

    @unordered_call
    def conversations(
        self, agent: str | None = None, *, limit: int = 100, offset: int = 0, timeout_s: float | None = None
    ) -> Sequence[ConversationRecord]:
        """Conversations of an agent, or of all, in the order they came."""
        key = None if agent is None else AgentName(storable_id(agent, "agent"))
        found = self.directory_call("conversations", key, limit, offset, timeout_s=timeout_s)
        return cast("Sequence[ConversationRecord]", found)

    @unordered_call
    def conversations_of_id(
        self, conversation_id: str, *, timeout_s: float | None = None
    ) -> Sequence[ConversationRecord]:
        """The conversations of that id, by agent: ids are unique for one agent only. None is made."""
        key = ConversationId(storable_id(conversation_id, "conversation_id"))
        found = self.directory_call("conversations_of_id", key, timeout_s=timeout_s)
        return cast("Sequence[ConversationRecord]", found)

    @unordered_call
    def live_conversations(self, *, timeout_s: float = LIVE_ANSWER_S) -> Sequence[LiveConversation]:
        """The conversations of this node that have a process now, the one unused for longest first.

        Looking wakes none and does not count as a use.

        Args:
            timeout_s: For all of them; one that has not answered by then comes without its `inspection`.
        """
        with self._gate:
            return inspect_live(self.place, timeout_s)

    @unordered_call
    def job_runs(self, job: str | None = None, *, limit: int = 20, timeout_s: float | None = None) -> Sequence[JobRun]:
        """The newest runs of a job of the runtime's own, or of all, newest first."""
        return cast("Sequence[JobRun]", self.directory_call("job_runs", job, limit, timeout_s=timeout_s))

    def metrics_urls(self) -> Sequence[str]:
        """Where the metrics of each node can be scraped, in the form that Prometheus reads."""
        import ray

        with self._gate:
            nodes: list[dict[str, Any]] = cast(Any, ray.nodes)()
        places = [(node["NodeManagerAddress"], node["MetricsExportPort"]) for node in nodes if node["Alive"]]
        return [f"http://{address}:{port}/metrics" for address, port in places]

    def _code_of(
        self, name: AgentName, functions: Mapping[str, Tool[..., Any]], options: AgentOptions
    ) -> dict[str, bytes]:
        """Pickled functions of tools that have no importable place; this process keeps what it was given."""
        known = _CODE.setdefault((str(self.place.data_dir), name), {})
        known.update({tool: code for tool, entry in functions.items() if (code := entry.code) is not None})
        return {record.name: known[record.name] for record in options.tools if record.name in known}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Let go of everything. Calls under way raise `RuntimeClosedError`; their turns continue when repeated."""
        if not self._gate.close():
            return
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.close()
        self.executor.shutdown(wait=False)
        self._gate.wait_until_empty(CLOSE_WAIT_S)
        ATTACHMENT.detach()
        if self._share is not None:
            self._share.release()

    def _check_host(self) -> None:
        if self._share is not None and not self._share.is_served():
            raise HostError(
                str(self.place.data_dir), "the process that owned its Ray has died; connect again and repeat the call"
            )

    def link(self, actor_name: str, locate: Callable[[], Any]) -> ActorLink:
        """The runtime's way to an actor, shared by all handles."""
        with self._lock:
            if actor_name not in self._links:
                self._links[actor_name] = ActorLink(locate, self._gate)
            return self._links[actor_name]

    def lane(self, actor_name: str) -> Lane:
        """The order in which the calls of this process to an actor go out."""
        with self._lock:
            if actor_name not in self._lanes:
                self._lanes[actor_name] = Lane(self.executor)
            return self._lanes[actor_name]

    def directory_call(self, method: str, *arguments: object, timeout_s: float | None) -> Any:
        """Call the directory and wait."""
        deadline = Deadline(method, self.call_timeout_s if timeout_s is None else timeout_s)
        return self._directory.call(method, *arguments, deadline=deadline)

    def memory_call(self, method: str, *arguments: object, timeout_s: float | None) -> Any:
        """Call the owner of memories and wait."""
        deadline = Deadline(method, self.call_timeout_s if timeout_s is None else timeout_s)
        return self.link("memory", lambda: memory_actor(self.place)).call(method, *arguments, deadline=deadline)

    def submit(self, body: Callable[[], Result], *, here: bool = False) -> Future[Result]:
        """Run a call's body at once: here, or off the caller's thread."""
        self._gate.check()
        future: Future[Result] = Future()
        if here:
            run_into(future, body, time.monotonic())
            return future
        try:
            self.executor.submit(run_into, future, body, time.monotonic())
        except RuntimeError as error:
            raise RuntimeClosedError from error
        return future

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]:  # noqa: ARG002 - the protocol's
        return self.submit(body, here=here)


def default_data_dir() -> Path:
    """`PERDURE_DATA_DIR`, or `./perdure-data`."""
    import os

    return Path(os.environ.get("PERDURE_DATA_DIR") or "perdure-data")


def _checked_model(model: object) -> str | None:
    if isinstance(model, Script):
        return script_to_name(model)
    if model is None or (isinstance(model, str) and model.strip()):
        return model
    raise InvalidInputError("model", f"{model!r} is no model", "give a name such as 'openai/gpt-4o-mini', or None")


def _checked_prompt(prompt: object, settings: Settings) -> str:
    if not isinstance(prompt, str):
        raise InvalidInputError("system_prompt", f"a {type(prompt).__name__} was given", "give a text")
    cleaned = clean_text(prompt)
    check_system_prompt(cleaned, settings.context)
    return cleaned


def _checked_memory(memory: object) -> bool:
    if not isinstance(memory, bool):
        raise InvalidInputError("memory", f"a {type(memory).__name__} was given", "give True or False")
    return memory
