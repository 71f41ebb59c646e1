"""What is counted of a turn, and that the README says what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.metrics import COMMIT_SECONDS, METRICS, SECONDS, STAGE_SECONDS, TURN_SECONDS, TURNS
from perdure.actors.metrics_export import OTHER_AGENTS, KnownAgents
from perdure.actors.tally import Counts, Tally
from perdure.actors.turn_watch import TurnWatch, WatchedChat, WatchedTools
from perdure.jobs.conversation import Conversation
from perdure.storage.errors import ModelRequestError, TurnConflictError
from perdure.storage.settings import Settings, TurnSettings

from .turn_harness import Harness, calls, says


class WatchedHarness(Harness):
    """A conversation under a watch, as its actor has it."""

    def start(self) -> None:
        super().start()
        self.tally = Tally()
        self.watch = TurnWatch(self.tally, "agent")
        self.conversation = Conversation(
            self.watch.watched(self.store),
            WatchedChat(self.model, self.watch),
            WatchedTools(self.tools, self.watch, self.tally, "agent"),
            self.clock,
            self.settings,
            self.cancellation,
        )

    def attempt(self, turn_id: str, text: str = "Book it") -> None:
        with self.watch.turn():
            self.send(turn_id, text)


def outcomes(counts: Counts) -> dict[str, int]:
    return {tags[1]: number for (name, tags), number in counts.counters.items() if name == TURNS.name}


def observed(counts: Counts, name: str) -> dict[str, int]:
    """How often each value of the last tag was observed."""
    return {tags[-1]: sum(buckets) for (metric, tags), buckets in counts.histograms.items() if metric == name}


def test_a_turn_is_counted_once_with_its_stages_and_a_repeat_as_a_repeat(tmp_path: Path) -> None:
    harness = WatchedHarness(tmp_path, [calls("c1", "c2"), says("Booked.")])
    harness.attempt("t")
    harness.attempt("t")
    counts = harness.tally.take()
    assert outcomes(counts) == {"finished": 1, "repeated": 1}
    assert observed(counts, TURN_SECONDS.name) == {"agent": 1}
    assert observed(counts, STAGE_SECONDS.name) == dict.fromkeys(
        ("open", "context", "model", "tools", "record", "finish"), 1
    )
    assert observed(counts, COMMIT_SECONDS.name) == {
        "open_turn": 1,
        "record_calls": 1,
        "record_results": 2,
        "finish_turn": 1,
    }


def test_turns_that_end_otherwise_are_told_apart(tmp_path: Path) -> None:
    settings = Settings(turn=TurnSettings(max_tool_rounds=1))
    harness = WatchedHarness(tmp_path, [calls("c1"), calls("c2")], settings)
    with pytest.raises(Exception, match="asked for tools"):
        harness.attempt("too many rounds")
    harness.model.steps = [ModelRequestError("m", "no")]
    with pytest.raises(ModelRequestError):
        harness.attempt("broken")
    with pytest.raises(TurnConflictError):
        harness.attempt("broken", "another text")
    harness.clock.pass_s(60)
    harness.model.steps = [says("ok")]
    harness.attempt("takes the broken one over")
    assert outcomes(harness.tally.take()) == {
        "failed": 1,
        "model_error": 1,
        "refused": 1,
        "finished": 1,
        "abandoned": 1,
    }


def test_a_streamed_turn_that_nobody_finishes_is_interrupted(tmp_path: Path) -> None:
    harness = WatchedHarness(tmp_path, [says("a long answer")])

    def stream():
        with harness.watch.turn():
            yield from harness.conversation.stream(harness.request("t", "Go on"))

    events = stream()
    next(events)
    events.close()
    counts = harness.tally.take()
    assert outcomes(counts) == {"interrupted": 1}
    assert set(observed(counts, STAGE_SECONDS.name)) == {"open", "model", "context"}


@given(st.lists(st.sampled_from(["x", "y"])), st.lists(st.floats(min_value=0, max_value=1000)), st.booleans())
def test_counts_that_nobody_took_come_again(happened: list[str], seconds: list[float], is_lost: bool) -> None:
    tally, taken = Tally(), []
    for what, value in [*((what, 0.0) for what in happened), *(("", value) for value in seconds)]:
        if what:
            tally.count(TURNS, "agent", what)
        else:
            tally.observe(TURN_SECONDS, value, "agent")
        counts = tally.take()
        if is_lost:
            tally.put_back(counts)
        else:
            taken.append(counts)
    taken.append(tally.take())
    assert sum((Counter(outcomes(counts)) for counts in taken), Counter()) == Counter(happened)
    assert sum(observed(counts, TURN_SECONDS.name).get("agent", 0) for counts in taken) == len(seconds)


def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_exceed() -> None:
    tally = Tally()
    for value in (0.0, SECONDS[0], SECONDS[0] * 1.01, SECONDS[-1], SECONDS[-1] * 2):
        tally.observe(TURN_SECONDS, value, "agent")
    [buckets] = tally.take().histograms.values()
    assert (buckets[0], buckets[1], buckets[-2], buckets[-1], sum(buckets)) == (2, 1, 1, 1, 5)


def test_however_many_agents_there_are_their_series_stay_few() -> None:
    agents = KnownAgents(3)
    assert [agents.tag(name) for name in "abcdeab"] == ["a", "b", "c", OTHER_AGENTS, OTHER_AGENTS, "a", "b"]
    assert set(agents.tags) == {"a", "b", "c", OTHER_AGENTS}


def test_the_readme_lists_every_metric_as_it_is_declared() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(perdure_\w+)` \| (\w+) \| ([\w, ]*) \| (.+) \|$", text, re.MULTILINE)
    assert listed == [(metric.name, metric.kind, ", ".join(metric.tags), metric.meaning) for metric in METRICS]


def test_names_tell_kind_and_unit_and_no_tag_is_without_bound() -> None:
    for metric in METRICS:
        assert metric.name.startswith("perdure_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_seconds") == (metric.kind == "histogram") == bool(metric.boundaries)
        assert {*metric.tags} <= {"agent", "outcome", "stage", "step", "tool", "type", "consumer"}
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_conversation_in_a_tests_own_process_loads_neither_ray_nor_the_counting() -> None:
    code = (
        "import sys, perdure.actors.testing; "
        "print([name for name in sys.modules if name == 'ray' or name.endswith(('.tally', '.turn_watch'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
