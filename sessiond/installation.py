"""Installation of this program: the command that adds an extra to it, or mends it."""

from __future__ import annotations

import sys
from collections.abc import Set
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Final

# A package that each extra brings.
_EXTRAS: Final = {
    "browse": "textual",
    "mcp": "mcp",
    "openai-agents": "agents",
    "postgresql": "psycopg",
}


def adding(extra: str) -> str:
    """Return the next step where an extra is missing."""
    return _installing("install", "uv tool install --force", {extra})


def mending() -> str:
    """Return the next step where files of the installation are missing."""
    return _installing("install --force-reinstall --no-deps", "uv tool install --reinstall", set())


def _installing(pip: str, uv: str, extras: Set[str]) -> str:
    """Return the command for the program that installed sessiond; extras that are there stay."""
    # pipx and uv leave a note in each environment that they make, wherever it is.
    made = Path(sys.prefix)
    if (made / "pipx_metadata.json").exists():
        install = "pipx install --force"
    elif (made / "uv-receipt.toml").exists():
        install = uv
    else:
        # The `pip` that comes first in $PATH may install elsewhere.
        install = f"{quote(sys.executable)} -m pip {pip}"
    named = {name for name, module in _EXTRAS.items() if find_spec(module)} | extras
    source = f"'.[{','.join(sorted(named))}]'" if named else "."
    return f"in the checkout of sessiond run: {install} {source}"
