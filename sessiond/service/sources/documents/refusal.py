"""The refusal of a file or a document that cannot be imported."""

from __future__ import annotations

from sessiond.errors import SessionCorrupt


def corrupt(name: str, why: str, line: int | None = None) -> SessionCorrupt:
    """Return the error for a document with this name, or for one of the lines of a file."""
    where = name if line is None else f"{name}, line {line}"
    return SessionCorrupt(
        f"{where}: {why}; nothing was imported and the file is unchanged",
        path=name,
        line=line or 1,
        repairable=False,
    )
