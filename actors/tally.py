"""What a process has counted since it last told: plain numbers, cheap enough for a turn's path."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from .metrics import Metric

Series = tuple[str, tuple[str, ...]]
"""A metric's name and the values of its tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was counted in a while."""

    counters: Mapping[Series, int] = field(default_factory=dict)
    histograms: Mapping[Series, tuple[int, ...]] = field(default_factory=dict)
    """How many observations fell into each bucket; the last one has no upper bound."""

    @property
    def is_empty(self) -> bool:
        """Was nothing counted?"""
        return not self.counters and not self.histograms


class Tally:
    """Counts until somebody takes the counts. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[Series, int] = {}
        self._histograms: dict[Series, list[int]] = {}

    def count(self, metric: Metric, *tags: str, by: int = 1) -> None:
        """Count something that happened."""
        series = (metric.name, tags)
        with self._lock:
            self._counters[series] = self._counters.get(series, 0) + by

    def observe(self, metric: Metric, value: float, *tags: str) -> None:
        """Count a measured value in its bucket."""
        series = (metric.name, tags)
        bucket = bisect_left(metric.boundaries, value)
        with self._lock:
            buckets = self._histograms.get(series)
            if buckets is None:
                buckets = self._histograms[series] = [0] * (len(metric.boundaries) + 1)
            buckets[bucket] += 1

    def take(self) -> Counts:
        """What was counted since the last time."""
        with self._lock:
            counters, self._counters = self._counters, {}
            histograms, self._histograms = self._histograms, {}
        return Counts(counters=counters, histograms={series: tuple(buckets) for series, buckets in histograms.items()})

    def put_back(self, counts: Counts) -> None:
        """Nobody has had these counts; the next `take` gives them again."""
        with self._lock:
            for series, number in counts.counters.items():
                self._counters[series] = self._counters.get(series, 0) + number
            for series, buckets in counts.histograms.items():
                known = self._histograms.get(series, [0] * len(buckets))
                self._histograms[series] = [before + more for before, more in zip(known, buckets, strict=True)]
