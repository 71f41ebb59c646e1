"""A conversation's counts on their way to the directory, which exports them for all.

A conversation's process is short-lived, and Ray gives every process series of its own, which its metrics agent never
forgets. So the processes that come and go count for themselves, and one that stays exports the sums.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from .placement import RuntimePlace, directory_actor
from .tally import Counts, Tally

ANSWER_S = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """What a conversation's process tells."""

    actor_name: str
    counts: Counts
    """Since the report before."""
    outbox_depths: Mapping[str, int] = field(default_factory=dict)
    """By consumer: messages that it has not had yet."""


class MetricsReporter:
    """Reports in intervals while there is something to tell, and when it is asked to. What a crash leaves is lost."""

    def __init__(
        self, place: RuntimePlace, actor_name: str, tally: Tally, outbox_depths: Callable[[], Mapping[str, int]]
    ) -> None:
        self._place = place
        self._actor_name = actor_name
        self._tally = tally
        self._outbox_depths = outbox_depths
        self._told_depths: Mapping[str, int] = {}
        self._directory: Any = None
        self._reporting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def report(self) -> None:
        """Tell what there is to tell; without an answer, the next report tells it."""
        with self._reporting:
            depths = self._outbox_depths()
            counts = self._tally.take()
            if counts.is_empty and depths == self._told_depths and not any(depths.values()):
                return
            report = MetricsReport(actor_name=self._actor_name, counts=counts, outbox_depths=depths)
            try:
                if self._directory is None:
                    self._directory = directory_actor(self._place)
                ray.get(self._directory.count.options(max_task_retries=0).remote(report), timeout=ANSWER_S)
            except (ray.exceptions.RayError, ValueError) as error:
                logger.debug("metrics were not taken: %s", error)
                self._directory = None
                self._tally.put_back(counts)
                return
            self._told_depths = depths

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._place.settings.ray.metrics_interval_s):
            self.report()
