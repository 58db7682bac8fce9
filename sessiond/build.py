"""Build id of this program: tells two installations of one version apart.

Law: the id is taken when this module is imported, which a daemon does at its start, so that the id is
that of the code which runs, and not of files that replaced it since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from sessiond import __version__


def _build_of(package: Path) -> str:
    """Return the build id of a package: of its recorded digests, else of the state of its sources."""
    name = package.name
    record = package.parent / f"{name}-{__version__}.dist-info" / "RECORD"
    try:
        lines = record.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # What an installer compiled, and what it made itself, differs from one installation to the next.
    parts = [line for line in lines if line.startswith(f"{name}/") and ",sha256=" in line]
    told = "\n".join(sorted(parts or _sources(os.fspath(package))))
    return f"{crc32(os.fsencode(told)):08x}"


def _sources(folder: str, name: str = "") -> Iterator[str]:
    """Yield name, size and time of change of each source of a checkout: to read them all costs 20 ms."""
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir():
                yield from _sources(one.path, f"{name}{one.name}/")
            elif one.name.endswith(".py"):
                state = one.stat()
                yield f"{name}{one.name},{state.st_size},{state.st_mtime_ns}"


BUILD: Final = _build_of(Path(__file__).parent)
