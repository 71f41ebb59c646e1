"""The directory's timer: dormant conversations that hold undelivered messages are started to deliver them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import ray

from ..storage.directory_records import ConversationRecord, JobRun
from .live_marks import live_conversations, live_folder
from .placement import ConversationPlace, RuntimePlace, conversation_actor

JOB = "outbox-sweep"
FIRST_SWEEP_S = 3.0
"""After the directory has started: what a crash left undelivered need not wait for the timer."""
DRAIN_S = 60.0
ANSWER_S = 90.0

logger = logging.getLogger(__name__)


class OutboxSweep:
    """Starts one conversation at a time, lets it deliver, and lets it go again. The live ones deliver by themselves."""

    def __init__(self, place: RuntimePlace) -> None:
        self._place = place
        self._thread = threading.Thread(target=self._run, name="outbox-sweep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        directory = ray.get_runtime_context().current_actor
        pause = threading.Event()
        pause.wait(FIRST_SWEEP_S)
        while True:
            try:
                self._sweep(directory)
            except Exception:
                logger.exception("a sweep of the outbox failed")
            pause.wait(self._place.settings.outbox.sweep_s)

    def _sweep(self, directory: Any) -> None:
        due: Sequence[ConversationRecord] = ray.get(directory.undelivered.remote(), timeout=ANSWER_S)
        started_at, swept, failed = datetime.now(UTC), 0, 0
        for record in due:
            where = ConversationPlace(
                agent=record.agent, conversation_id=record.conversation_id, contact=record.contact
            )
            if where.actor_name in self._live_names():
                continue
            swept += 1
            try:
                self._deliver(where)
            except ray.exceptions.RayError as error:
                failed += 1
                directory.postpone_sweep.remote(where.agent, where.conversation_id)
                logger.warning("conversation %s/%s was not swept: %s", where.agent, where.conversation_id, error)
        if swept:
            run = JobRun(
                run_id=uuid4().hex,
                job=JOB,
                started_at=started_at,
                ended_at=datetime.now(UTC),
                counts=json.dumps({"conversations": swept, "failed": failed}),
                error=None,
            )
            ray.get(directory.add_job_run.remote(run), timeout=ANSWER_S)

    def _live_names(self) -> set[str]:
        folder = live_folder(self._place.data_dir)
        return {live.actor_name for live in live_conversations(folder)}

    def _deliver(self, where: ConversationPlace) -> None:
        actor = conversation_actor(self._place, where)
        try:
            ray.get(actor.drain_outbox.options(concurrency_group="control").remote(DRAIN_S), timeout=ANSWER_S)
        finally:
            with suppress(ray.exceptions.ActorDiedError):  # it ends as it answers
                ray.get(actor.passivate.options(max_task_retries=0).remote(0.0), timeout=ANSWER_S)
