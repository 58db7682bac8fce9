"""The patience of tests with what they wait for."""

from __future__ import annotations

from typing import Final

__all__ = ["HANG_SECONDS"]

HANG_SECONDS: Final = 120
"""Seconds after which a wait hangs for good, also where other programs have the processors."""
