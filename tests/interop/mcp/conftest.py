"""The SDK of MCP, which every test here needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def _sdk(absent: Callable[[str], NoReturn]) -> None:
    try:
        # Imported before a test watches for calls that block.
        import sessiond.mcp.server  # noqa: F401
    except ImportError:
        absent("mcp is not installed (dependency group extras)")
