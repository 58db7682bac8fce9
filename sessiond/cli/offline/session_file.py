"""From what a user wrote for a session to its file, without a daemon where that can be."""

from __future__ import annotations

from pathlib import Path

from sessiond.cli.connect.conversation import connected, find, is_path
from sessiond.cli.connect.target import layout_of
from sessiond.cli.options import Shared
from sessiond.cli.ui.failures import Failure
from sessiond.journal.disk.files import Files

__all__ = ["session_file"]


def session_file(shared: Shared, ref: str) -> Path:
    """The path of the file: as it was written, of the id, else as the daemon finds it."""
    if is_path(ref):
        return Path(ref).expanduser().absolute()
    path = layout_of(shared.place).find(Files(), ref)
    if path is not None:
        return path
    with connected(shared) as client:
        session = find(client, ref)
    if session["path"] is None:
        raise Failure("this session has no file", "it lives in the daemon's memory alone")
    return Path(session["path"])
