"""Where a campaign keeps its things, and the environment in which its Ray has to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CRASH_CAMPAIGN_DIR"
SABOTAGE_VARIABLE = "CRASH_CAMPAIGN_SABOTAGE"
KEPT_WORKERS = 16
"""Idle processes that Ray keeps for the next tools: starting them takes most of a campaign's time otherwise."""
_CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """A campaign's directory; its path is short, since Ray's sockets live below it."""

    root: Path

    @property
    def data(self) -> Path:
        """The data directory under attack."""
        return self.root / "data"

    @property
    def ray(self) -> Path:
        """Ray's temporary directory."""
        return self.root / "ray"

    @property
    def faults(self) -> Path:
        """Where fault points are armed and their hits noted."""
        return self.root / "faults"

    @property
    def effects(self) -> Path:
        """The log of the tools."""
        return self.root / "effects.log"

    @property
    def witness(self) -> Path:
        """The log of what was committed."""
        return self.root / "witness.log"

    @property
    def openings(self) -> Path:
        """The log of who held which conversation's file."""
        return self.root / "openings.log"

    def journal(self, client: str) -> Path:
        """The journal of a client that keeps one on disk."""
        return self.root / f"{client}.journal"

    @property
    def journals(self) -> list[Path]:
        """All of them."""
        return sorted(self.root.glob("*.journal"))

    @property
    def stop(self) -> Path:
        """Made when clients in processes of their own are to stop."""
        return self.root / "stop"


def place_in_environment() -> CampaignPlace:
    """The place of the campaign that this process belongs to."""
    return CampaignPlace(Path(os.environ[VARIABLE]))


@contextmanager
def environment_of_actors(place: CampaignPlace, sabotage: str | None) -> Iterator[None]:
    """Start Ray within: all processes it ever has inherit fault points, witness and sabotage; this one does not."""
    place.faults.mkdir()
    path = [str(_CHECKOUT / "tests" / "crash" / "injected"), str(_CHECKOUT)]
    if os.environ.get("PYTHONPATH"):
        path.append(os.environ["PYTHONPATH"])
    given = {
        "PERDURE_FAULT_DIR": str(place.faults),
        VARIABLE: str(place.root),
        "PYTHONPATH": os.pathsep.join(path),
        "RAY_num_workers_soft_limit": str(KEPT_WORKERS),
    }
    if sabotage:
        given[SABOTAGE_VARIABLE] = sabotage
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
