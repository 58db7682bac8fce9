"""Descriptions of daemons for `start`, `status` and `profiles`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from sessiond.cli.connect.probe import About, who_serves
from sessiond.journal.profile.layout import Layout, is_profile


class Profile(Struct, frozen=True):
    """Profile folder, and its daemon if one runs."""

    name: str
    folder: str
    running: bool
    pid: int | None = None
    since: str | None = None
    socket: str | None = None


def running(path: Path, found: About) -> dict[str, Any]:
    """Return the description of a daemon that answered: its own facts and its socket."""
    return {
        "running": True,
        "pid": found.pid,
        "socket": str(path),
        "profile": found.profile,
        "home": str(found.home),
        "version": found.version,
        "build": found.build,
        "instance_id": found.instance_id,
    }


def profiles_of(home: Path) -> list[Profile]:
    """Return every profile of a home, by name. Raise OSError."""
    try:
        names = sorted(path.name for path in (home / "profiles").iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    return [_profile(Layout(home, name)) for name in names if is_profile(name)]


def _profile(layout: Layout) -> Profile:
    serving = who_serves(layout)
    folder = str(layout.root)
    if serving is None or serving.holder is None:
        return Profile(layout.profile, folder, running=serving is not None)
    holder = serving.holder
    return Profile(
        name=layout.profile,
        folder=folder,
        running=True,
        pid=holder.pid if holder.is_here else None,
        since=holder.since,
        socket=holder.socket,
    )
