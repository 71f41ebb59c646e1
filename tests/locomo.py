"""Where the LoCoMo conversations are (Maharana et al. 2024): a made-up few in its form, and the real ones, if any."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
SMALL_LOCOMO = CHECKOUT / "tests" / "fixtures" / "locomo_small.json"


def find_locomo() -> Path | None:
    """`PERDURE_LOCOMO`, or a file beside the checkout; None where there is none."""
    named = os.environ.get("PERDURE_LOCOMO")
    path = Path(named) if named else CHECKOUT.parent / "shared" / "data" / "locomo10.json.gz"
    return path if path.is_file() else None
