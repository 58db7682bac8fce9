"""The programs of the demo that use sessiond: one that appends, two that watch.

programs.py write SOCKET SESSION WRITER            append messages, each after the answer to the
last programs.py watch SOCKET SESSION SEQ ENTRY COUNT   print the texts of COUNT messages behind an
entry programs.py watch-twice SOCKET SESSION SEQ ENTRY   watch half of them, leave, come back, watch
the rest
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable

from sessiond_client import Cursor, EntryEvent, connect_blocking

WRITERS, APPENDS = 4, 200
TOTAL = WRITERS * APPENDS


def text_of(writer: int, number: int) -> str:
    """Return the text of a message of the demo."""
    return f"writer {writer}, message {number}"


def marks(entries: Iterable[dict[str, object]]) -> list[str]:
    """Return the texts of the demo's own messages among entries or messages."""
    found = []
    for entry in entries:
        message = entry.get("message", entry)
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and content.startswith("writer "):
            found.append(content)
    return found


def child(*arguments: object) -> subprocess.Popen[str]:
    """Start one of the programs of this file."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def write(socket: str, session_id: str, writer: int) -> None:
    """Append APPENDS messages, each on disk before the next is sent."""
    with connect_blocking(socket) as client:
        for number in range(APPENDS):
            message = {
                "role": "user",
                "content": text_of(writer, number),
                "timestamp": int(time.time() * 1000),
            }
            client.append(session_id, message=message)


def watch(socket: str, session_id: str, after: Cursor, stop_at: int) -> None:
    """Print the demo's messages as they come, `stop_at` of them, then the place of the last."""
    seen = 0
    last = after
    with (
        connect_blocking(socket) as client,
        client.subscribe(session_id, after=after) as subscription,
    ):
        for event in subscription:
            if not isinstance(event, EntryEvent):
                continue
            last = event.cursor
            for text in marks([event.entry]):
                print(text, flush=True)
                seen += 1
            if seen >= stop_at:
                break
    print(json.dumps({"seq": last.seq, "entry_id": last.entry_id}))


def watch_twice(socket: str, session_id: str, after: Cursor) -> None:
    """Watch half of the messages, leave, come back behind the last entry, watch the rest."""
    first = child("watch", socket, session_id, after.seq, after.entry_id, TOTAL // 2)
    lines = (first.communicate()[0]).splitlines()
    at = json.loads(lines[-1])
    seen = len(lines) - 1
    rest = child("watch", socket, session_id, at["seq"], at["entry_id"], TOTAL - seen)
    lines[-1:] = rest.communicate()[0].splitlines()
    print("\n".join(lines))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", socket, session_id, writer]:
            write(socket, session_id, int(writer))
        case ["watch", socket, session_id, seq, entry_id, stop_at]:
            watch(socket, session_id, Cursor(int(seq), entry_id=entry_id), int(stop_at))
        case ["watch-twice", socket, session_id, seq, entry_id]:
            watch_twice(socket, session_id, Cursor(int(seq), entry_id=entry_id))
        case _:
            sys.exit(__doc__)
