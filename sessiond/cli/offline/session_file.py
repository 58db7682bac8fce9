"""File of the session that a user's text names, found without a daemon if possible."""

from __future__ import annotations

from pathlib import Path

from sessiond.cli.connect.conversation import connected, find
from sessiond.cli.connect.target import layout_of
from sessiond.cli.options import Shared
from sessiond.cli.ui.command_terms import is_path
from sessiond.cli.ui.failure import Failure
from sessiond.journal.disk.files import Files


def session_file(shared: Shared, ref: str) -> Path:
    """Return the path of the file: the given path, the id's file, else the daemon's answer."""
    if is_path(ref):
        return Path(ref).expanduser().absolute()
    path = layout_of(shared.place).find(Files(), ref)
    if path is not None:
        return path
    with connected(shared) as client:
        session = find(client, ref)
    if session["path"] is None:
        raise Failure("this session has no file", "it is in the daemon's memory only")
    return Path(session["path"])
