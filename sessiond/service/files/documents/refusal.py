"""The refusal of a document that is not right."""

from __future__ import annotations

from sessiond.errors import SessionCorrupt

__all__ = ["corrupt"]


def corrupt(name: str, why: str) -> SessionCorrupt:
    """Return the error for a document with this name."""
    return SessionCorrupt(
        f"{name}: {why}; nothing was imported and the file is unchanged",
        path=name,
        line=1,
        repairable=False,
    )
