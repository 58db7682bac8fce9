"""A subscriber in a process of its own, which can be stopped.

    python -m tests.crowd.subscriber SOCKET SESSION COUNT

Prints `ready` when it is subscribed, and one line of JSON at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.crowd.cast import Watcher, drive

__all__ = ["Heard"]


class Heard(Struct, frozen=True):
    """The checked events of a subscriber."""

    entries: int
    digest: str
    lagged: int
    synced: int


def main(socket_path: str, session_id: str, count: str) -> None:
    """Watch until everything has come."""
    watcher = Watcher(Path(socket_path), int(count))
    watcher.ask("session/subscribe", session_id=session_id)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    drive([watcher])
    heard = Heard(watcher.seq, watcher.digest, watcher.lagged, watcher.synced)
    sys.stdout.write(msgspec.json.encode(heard).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
