"""Seeds of tests that draw: the same in every run, unless a search asks for its own."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["SEED", "VARIABLE", "seeds"]

VARIABLE: Final = "SESSIOND_SEED"
SEED: Final = int(os.environ.get(VARIABLE, "0"))
"""First seed of this run: 0, or the one that `make search` gives."""


def seeds(count: int) -> range:
    """Return the seeds with which a drawn test runs."""
    return range(SEED, SEED + count)
