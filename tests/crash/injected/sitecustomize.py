"""Python imports this at the start of every process that has this folder on its path: those of a campaign's Ray.

Where such a process loads the conversation store, the witnesses of its commits and of who holds its file start
watching it. There and where a process loads the store of memories, the sabotage that was asked for, if any, begins.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

CONVERSATIONS = "perdure.storage.conversation_store"
MEMORIES = "perdure.storage.memory_store"
SABOTAGED = {"early-ack": CONVERSATIONS, "drop-lock": CONVERSATIONS, "forget-result": CONVERSATIONS}
"""The store whose process each sabotage is for; those that are not named are for the owner of memories."""


class _Finder(MetaPathFinder):
    """Finds a store's module as ever, and has it changed once it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in (CONVERSATIONS, MEMORIES):
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            sys.modules[fullname] = module
            _change(fullname)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _change(store: str) -> None:
    from tests.crash.openings import watch_openings
    from tests.crash.sabotage import SABOTAGES
    from tests.crash.witness import watch_commits

    if store == CONVERSATIONS:
        place = Path(os.environ["CRASH_CAMPAIGN_DIR"])
        watch_commits(place / "witness.log")
        watch_openings(place / "openings.log")
    sabotage = os.environ.get("CRASH_CAMPAIGN_SABOTAGE")
    if sabotage and SABOTAGED.get(sabotage, MEMORIES) == store:
        SABOTAGES[sabotage]()


if "CRASH_CAMPAIGN_DIR" in os.environ:
    sys.meta_path.insert(0, _Finder())
