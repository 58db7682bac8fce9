"""pi itself, from npm, for tests that need pi's own answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tests.bench.harness.bench import CACHE
from tests.bench.harness.errors import Missing
from tests.bench.harness.processes import REPOSITORY
from tests.bench.peers.pi import installed_pi

__all__ = ["node_and_pi"]


def node_and_pi(absent: Callable[[str], NoReturn]) -> tuple[Path, Path]:
    """Return node's program, and the module with pi's SessionManager; `absent` ends a test without pi."""
    folder = REPOSITORY / CACHE / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return installed_pi(folder)
    except Missing as missing:
        absent(str(missing))
