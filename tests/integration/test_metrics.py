"""What an operator sees of a running system: the node's metrics, and who the actors are."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, cast

import pytest

from perdure.actors import Runtime
from perdure.actors.testing import CallTools, FailWith, Rule, Say, Script
from perdure.storage.errors import ModelRequestError

from ..benchmarks.tools import instant

LINE = re.compile(r"^ray_(perdure_\w+)\{(.*)\} (\S+)$")
TAG = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
RAYS_OWN = re.compile(r"Component|JobId|NodeAddress|SessionName|Version|WorkerId|otel_\w+")
WAIT_S = 20.0


def scraped(runtime: Runtime) -> list[tuple[str, dict[str, str], float]]:
    """Our metrics with their tags, as they stand on the node's page."""
    [url] = runtime.metrics_urls()
    try:
        with urllib.request.urlopen(url, timeout=10) as page:
            lines = page.read().decode().splitlines()
    except OSError:  # not there yet
        return []
    found = []
    for name, tags, value in (line.groups() for line in map(LINE.match, lines) if line):
        own = {tag: text for tag, text in TAG.findall(tags) if not RAYS_OWN.fullmatch(tag)}
        found.append((name, own, float(value)))
    return found


def values(runtime: Runtime, name: str, tag: str, **tags: str) -> dict[str, float]:
    """A metric's values by one of its tags, where the others are as given."""
    return {
        own[tag]: value
        for metric, own, value in scraped(runtime)
        if metric == name and tag in own and tags.items() <= own.items()
    }


def until_seen(runtime: Runtime, name: str, tag: str, expected: Mapping[str, float], **tags: str) -> None:
    limit = time.monotonic() + WAIT_S
    while (seen := values(runtime, name, tag, **tags)) != expected:
        assert time.monotonic() < limit, f"{name}: {seen} instead of {expected}"
        time.sleep(0.3)


@pytest.fixture
def script() -> Script:
    return Script(
        (
            Rule("tools", (CallTools((("instant", {"place": 1}), ("instant", {"place": "nowhere"}))), Say("{result}"))),
            Rule("broken", (FailWith("no", retryable=False),)),
            Rule(None, (Say("ok"),)),
        )
    )


def test_turns_their_stages_tool_calls_and_errors_are_on_the_nodes_page(
    runtime: Runtime, name: str, script: Script
) -> None:
    agent = runtime.agent(name, model=script, tools=[instant])
    chat = agent.conversation("one")
    chat.send("hello", turn_id="1")
    chat.send("hello", turn_id="1")
    chat.send("use your tools")
    list(chat.stream("hello again"))
    agent.conversation("two").begin_turn("mine").finish("done")
    with pytest.raises(ModelRequestError):
        chat.send("broken")
    chat.begin_turn("given up").abandon()

    until_seen(
        runtime,
        "perdure_turns_total",
        "outcome",
        {"finished": 4, "repeated": 1, "model_error": 1, "abandoned": 1},
        agent=name,
    )
    until_seen(runtime, "perdure_errors_total", "type", {"ModelRequestError": 1}, agent=name)
    until_seen(
        runtime, "perdure_tool_calls_total", "outcome", {"succeeded": 1, "failed": 1}, agent=name, tool="instant"
    )
    assert values(runtime, "perdure_tool_call_seconds_count", "tool", agent=name) == {"instant": 2}
    assert values(runtime, "perdure_turn_seconds_count", "agent", agent=name) == {name: 4}
    stages = values(runtime, "perdure_turn_stage_seconds_count", "stage", agent=name)
    assert stages == {"open": 4, "context": 4, "model": 4, "tools": 1, "record": 1, "finish": 4}
    assert values(runtime, "perdure_activations_total", "agent", agent=name) == {name: 2}
    steps = values(runtime, "perdure_commit_seconds_count", "step")
    assert {"open_turn", "record_calls", "record_results", "finish_turn", "abandon_turn"} <= set(steps)


def test_the_live_conversations_of_an_agent_are_those_that_have_a_process_now(
    runtime: Runtime, name: str, script: Script
) -> None:
    import ray

    agent = runtime.agent(name, model=script)
    for conversation in ("one", "two", "three"):
        agent.conversation(conversation).send("hello")
    until_seen(runtime, "perdure_live_conversations", "agent", {name: 3}, agent=name)

    actor: Any = ray.get_actor(f"conversation/{name}/one", runtime.place.namespace)
    actor.passivate.options(max_task_retries=0).remote(0.0)
    killed: Any = ray.get_actor(f"conversation/{name}/two", runtime.place.namespace)
    ray.kill(killed)
    until_seen(runtime, "perdure_live_conversations", "agent", {name: 1}, agent=name)
    until_seen(runtime, "perdure_passivations_total", "agent", {name: 1}, agent=name)


def test_an_agent_whose_name_is_beyond_ascii_is_counted_and_so_are_all_others(
    runtime: Runtime, name: str, script: Script
) -> None:
    runtime.agent(f"{name} Zoë", model=script).conversation("c").send("hello")
    escaped = f"{name} Zo\\\\xeb"  # as the page shows a backslash
    until_seen(runtime, "perdure_live_conversations", "agent", {escaped: 1}, agent=escaped)
    until_seen(runtime, "perdure_turns_total", "agent", {escaped: 1}, agent=escaped, outcome="finished")


def test_no_process_that_comes_and_goes_leaves_series_of_its_own(runtime: Runtime, name: str, script: Script) -> None:
    agent = runtime.agent(name, model=script)
    for number in range(3):
        agent.conversation(f"c{number}").send("hello")
    until_seen(runtime, "perdure_turns_total", "outcome", {"finished": 3}, agent=name)
    of_agent = [
        tags for metric, tags, _ in scraped(runtime) if metric == "perdure_turns_total" and tags["agent"] == name
    ]
    assert of_agent == [{"agent": name, "outcome": "finished"}]


def test_every_actor_says_whose_it_is(runtime: Runtime, name: str, script: Script) -> None:
    runtime.agent(f"{name} x", model=script).conversation("order/17").send("hello")
    actors = {actor["name"]: actor for actor in registered_actors(runtime)}
    conversation = actors[f"conversation/{name} x/order%2F17"]
    assert conversation["class_name"] == "ConversationProcess"
    assert conversation["repr_name"] == f"Conversation({name} x/order/17)"
    assert actors["directory"]["repr_name"] == f"Directory({runtime.place.data_dir})"
    assert actors["models/0"]["repr_name"] == "Models(0)"


def registered_actors(runtime: Runtime) -> list[dict[str, str]]:
    """What the dashboard's table of actors reads, of this runtime, without a dashboard."""
    import ray
    from ray.core.generated import gcs_pb2

    tables = cast(Any, gcs_pb2).ActorTableData
    state = cast(Any, ray)._private.state.state
    rows = state._connect_and_get_accessor().get_actor_table(None, None)
    found = [tables.FromString(row) for row in rows]
    return [
        {"name": row.name, "class_name": row.class_name, "repr_name": row.repr_name}
        for row in found
        if row.ray_namespace == runtime.place.namespace and row.state == tables.ALIVE
    ]
