"""The directory's side of the metrics: what conversations have counted, and what is live, given to Ray."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from ray.util import metrics as ray_metrics

from .live_marks import Live, live_conversations
from .metrics import LIVE_CONVERSATIONS, METRICS, OUTBOX_DEPTH, Metric
from .metrics_report import MetricsReport

MOST_AGENTS = 100
"""That have series of their own; an application may make an agent for each of its users."""
OTHER_AGENTS = "(other)"

RayMetric = ray_metrics.Counter | ray_metrics.Gauge | ray_metrics.Histogram

logger = logging.getLogger(__name__)


class KnownAgents:
    """The agents that have series of their own: those that were counted first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._tags: set[str] = set()

    def tag(self, agent: str) -> str:
        """What stands for an agent: its name, or what all others share."""
        with self._lock:
            tag = agent if agent in self._tags or len(self._tags) < self._most else OTHER_AGENTS
            self._tags.add(tag)
            return tag

    @property
    def tags(self) -> Sequence[str]:
        """All that was given."""
        with self._lock:
            return sorted(self._tags)


class MetricsExport:
    """Adds up reports. The gauges are set anew in intervals: Ray shows one that is not for two of its own only."""

    def __init__(self, marks: Path, interval_s: float) -> None:
        self._marks = marks
        self._interval_s = interval_s
        self._declared = {metric.name: metric for metric in METRICS}
        self._ray = {metric.name: _in_ray(metric) for metric in METRICS}
        self._lock = threading.Lock()
        self._agents = KnownAgents(MOST_AGENTS)
        self._depths: dict[str, Mapping[str, int]] = {}
        self._consumers: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin with the gauges."""
        self._thread.start()

    def add(self, report: MetricsReport) -> None:
        """Add what a conversation's process has counted."""
        for (name, values), number in report.counts.counters.items():
            counter = self._ray[name]
            assert isinstance(counter, ray_metrics.Counter)
            counter.inc(number, self._tags(self._declared[name], values))
        for (name, values), buckets in report.counts.histograms.items():
            metric, histogram = self._declared[name], self._ray[name]
            assert isinstance(histogram, ray_metrics.Histogram)
            tags = self._tags(metric, values)
            for value, number in zip(_middles(metric.boundaries), buckets, strict=True):
                for _ in range(number):
                    histogram.observe(value, tags)
        with self._lock:
            self._depths[report.actor_name] = report.outbox_depths
            self._consumers.update(report.outbox_depths)

    def set_gauges(self) -> None:
        """Set what is live and waits now; what was there once and is no more is 0."""
        live = live_conversations(self._marks)
        names = {one.actor_name for one in live}
        by_agent = Counter(self._agents.tag(agent_of(one)) for one in live)
        with self._lock:
            self._depths = {name: depths for name, depths in self._depths.items() if name in names}
            by_consumer = dict.fromkeys(self._consumers, 0)
            for depths in self._depths.values():
                for consumer, depth in depths.items():
                    by_consumer[consumer] += depth
        self._set(LIVE_CONVERSATIONS, {agent: by_agent[agent] for agent in self._agents.tags})
        self._set(OUTBOX_DEPTH, by_consumer)

    def _set(self, metric: Metric, values: Mapping[str, int]) -> None:
        gauge = self._ray[metric.name]
        assert isinstance(gauge, ray_metrics.Gauge)
        for tag, value in values.items():
            gauge.set(value, {metric.tags[0]: in_ascii(tag)})

    def _tags(self, metric: Metric, values: Sequence[str]) -> dict[str, str]:
        tags = dict(zip(metric.tags, values, strict=True))
        if "agent" in tags:
            tags["agent"] = self._agents.tag(tags["agent"])
        return {tag: in_ascii(value) for tag, value in tags.items()}

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self.set_gauges()
            except Exception:
                logger.warning("the live conversations were not counted", exc_info=True)
            pause.wait(self._interval_s)


def agent_of(live: Live) -> str:
    """The agent of a live conversation, which its actor's name tells."""
    return unquote(live.actor_name.split("/")[1])


def in_ascii(value: str) -> str:
    """A tag's value as Ray takes it: escapes stand for what is beyond ASCII."""
    return value.encode("ascii", "backslashreplace").decode("ascii")


def _in_ray(metric: Metric) -> RayMetric:
    if metric.kind == "counter":
        return ray_metrics.Counter(metric.name, metric.meaning, metric.tags)
    if metric.kind == "gauge":
        return ray_metrics.Gauge(metric.name, metric.meaning, metric.tags)
    return ray_metrics.Histogram(metric.name, metric.meaning, list(metric.boundaries), metric.tags)


def _middles(boundaries: Sequence[float]) -> Sequence[float]:
    """A value of each bucket. Ray's metrics agent keeps no other of a measured value either."""
    lower = (0.0, *boundaries)
    upper = (*boundaries, boundaries[-1] * 3)
    return [(low + high) / 2 for low, high in zip(lower, upper, strict=True)]
