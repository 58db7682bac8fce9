"""Progress of a language server's work that no editor shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from sessiond.lsp.progress import ProgressWire, Work

__all__ = ["unseen"]

_LONG_SECONDS = 3600


@asynccontextmanager
async def unseen(title: str) -> AsyncGenerator[Work]:
    """Run work without a word to an editor."""
    yield Work(cast("ProgressWire", None), title, None, shown_after=_LONG_SECONDS)
