"""Documents in memory, which stand in tests/kit, under the name by which other rooms import them."""

from __future__ import annotations

from tests.kit.documents import HOSTILE, Page, everywhere, made, native

__all__ = ["HOSTILE", "Page", "everywhere", "made", "native"]
