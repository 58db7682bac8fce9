"""A session manager of the usual kind, and a program that appends messages with it.

    alone.py write FILE WRITER COUNT   load, say "ready", wait for a line, append COUNT messages
    alone.py show FILE                 print every message that a model would see

The manager is what agents without sessiond have: it loads the file, keeps the last entry in memory
and appends each message below the entry that it appended last. Standard library only.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Session:
    """A session as one program sees it: the entries when it was loaded, and where to go on."""

    def __init__(self, path: Path) -> None:
        lines = path.read_bytes().splitlines()
        self.path = path
        self.entries: dict[str, Any] = {}
        for entry in map(json.loads, lines[1:]):
            self.entries[entry["id"]] = entry
        self.leaf: str | None = next(reversed(self.entries), None)

    def append(self, message: dict[str, Any]) -> None:
        """Append a message below the last entry that this program knows."""
        entry_id = uuid.uuid4().hex
        entry = {
            "type": "message",
            "id": entry_id,
            "parent_id": self.leaf,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "message": message,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.entries[entry_id] = entry
        self.leaf = entry_id

    def branch(self) -> Iterator[dict[str, Any]]:
        """Yield the entries from the last one up to the root: what a context is made of."""
        place = self.leaf
        while place is not None:
            yield self.entries[place]
            place = self.entries[place]["parent_id"]


def write(path: Path, writer: int, count: int) -> None:
    """Load the session, and append when every other program has loaded it too."""
    session = Session(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        text = f"writer {writer}, message {number}"
        session.append({"role": "user", "content": text, "timestamp": 0})


def show(path: Path) -> None:
    """Load the session anew, as the next program would, and print its messages."""
    for entry in reversed(list(Session(path).branch())):
        if entry["type"] == "message":
            print(json.dumps(entry["message"]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", path, writer, count]:
            write(Path(path), int(writer), int(count))
        case ["show", path]:
            show(Path(path))
        case _:
            sys.exit(__doc__)
