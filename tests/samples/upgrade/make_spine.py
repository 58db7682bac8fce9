"""Made tests/samples/upgrade/spine: run with the sessiond of the commit whose data it shall be.

    git worktree add /tmp/spine 1d55947 && make -C /tmp/spine .venv/ready-run
    python make_spine.py /tmp/spine/.venv/bin/sessiond OUT

It speaks to `sessiond serve --stdio` in newline-delimited JSON and needs only the standard
library. OUT gets `home/`, a data folder as that version left it, and `expected.json`, what it
answered about each session.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# A home that says nothing about the machine it was made on: the catalog names it.
HOME = Path("/var/tmp/sessiond-home")
PI = "\n".join(
    json.dumps(line, separators=(",", ":"))
    for line in [
        {
            "type": "session",
            "version": 3,
            "id": "0198c0de-0000-7000-8000-000000000001",
            "timestamp": "2026-01-01T09:00:00.000Z",
            "cwd": "/their/project",
        },
        {
            "type": "message",
            "id": "a1b2c3d4",
            "parentId": None,
            "timestamp": "2026-01-01T09:00:01.000Z",
            "message": {"role": "user", "content": "hi", "timestamp": 1767258001000},
        },
        {
            "type": "label",
            "id": "b1b2c3d4",
            "parentId": "a1b2c3d4",
            "timestamp": "2026-01-01T09:00:02.000Z",
            "targetId": "a1b2c3d4",
            "label": "start",
        },
    ]
)
ASK = {"role": "user", "content": "Sort it.", "cost": 1.50}
REPLY = {"role": "assistant", "content": [{"type": "text", "text": "Done \u2028 so."}]}


class Daemon:
    """A running daemon."""

    def __init__(self, program: str) -> None:
        command = [program, "serve", "--stdio", "--home", str(HOME)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a call; skip notifications."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return answer["result"]

    def end(self, how: signal.Signals) -> None:
        """Stop it so that it can say goodbye, or so that it cannot."""
        self._process.send_signal(how)
        self._process.wait()


def fill(daemon: Daemon) -> list[str]:
    """Sessions of every kind there was; gives their ids."""
    tree, draft = "spine-tree-0001", "spine-draft-0001"
    daemon.call("session/create", cwd="/my/project", session_id=tree, title="Sorting", tags=["a"])
    daemon.call("append", session_id=tree, entry={"type": "message", "id": "ask", "message": ASK})
    daemon.call("append", session_id=tree, entry={"type": "message", "id": "r1", "message": REPLY})
    atom = [{"type": "message", "id": f"atom{k}", "message": ASK} for k in (1, 2, 3)]
    daemon.call("append", session_id=tree, entries=atom)
    daemon.call("branch", session_id=tree, entry_id="ask", summary="The first try.")
    daemon.call("append", session_id=tree, message=REPLY, idempotency_key="once")
    daemon.call("session/label", session_id=tree, entry_id="r1", label="first reply")
    daemon.call("branch", session_id=tree, entry_id="r1", head="reviewer")
    daemon.call("append", session_id=tree, head="reviewer", message=ASK)
    daemon.call("compact", session_id=tree, summary="All of it.", first_kept_entry_id="ask")
    daemon.call("append", session_id=tree, message=ASK)
    info = {"type": "session_info", "name": "Sorted", "status": "done"}
    daemon.call("append", session_id=tree, entry=info)
    daemon.call("session/create", cwd="/my/project", session_id=draft, agent="coder")
    daemon.call("append", session_id=draft, entry={"type": "message", "id": "d1", "message": ASK})
    imported = daemon.call("session/import", content=PI + "\n")["session"]["id"]
    return [tree, draft, imported]


def look(daemon: Daemon, session_id: str) -> dict[str, Any]:
    """Return the daemon's description of a session."""
    info = daemon.call("session/get", session_id=session_id)["session"]
    del info["path"]
    context = daemon.call("build_context", session_id=session_id)
    path = daemon.call("session/path", session_id=session_id)["entries"]
    return {
        "info": info,
        "heads": daemon.call("session/heads", session_id=session_id)["heads"],
        "entries": daemon.call("session/entries", session_id=session_id)["entries"],
        "labels": {row["entry"]["id"]: row["label"] for row in path if row["label"]},
        "context": {"messages": context["messages"], "sources": context["sources"]},
    }


def main() -> None:
    """Fill a home, restart, look, and end without a goodbye: locks are left behind."""
    program, out = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(HOME, ignore_errors=True)
    daemon = Daemon(program)
    ids = fill(daemon)
    daemon.end(signal.SIGTERM)
    daemon = Daemon(program)
    expected = {session_id: look(daemon, session_id) for session_id in ids}
    daemon.end(signal.SIGKILL)
    for record in [*HOME.glob("locks/*"), *HOME.glob("profiles/*/daemon.lock")]:
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join("host workstation\n" if x[:5] == "host " else x for x in lines))
    for name in ("catalog.sqlite-shm",):
        (HOME / "profiles/default" / name).unlink(missing_ok=True)
    shutil.rmtree(out / "home", ignore_errors=True)
    shutil.move(HOME, out / "home")
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
