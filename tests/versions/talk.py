"""The talk of commands with a daemon, as it is recorded, and played to today's commands and daemon.

A recording holds, for each command of COMMANDS, what a command line and a daemon of an earlier version said to
each other (`earlier`), and what that daemon answered to the command line of the day of the recording (`later`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.kit.line_proxy import line_proxy
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["COMMANDS", "RECORDINGS", "Talk", "another_daemon", "played", "run", "told"]

RECORDINGS: Final = Path(__file__).parent / "recorded"
COMMANDS: Final = (
    "new --title my-session --cwd /my/project",
    "append my-session Hello.",
    "append my-session --role assistant World.",
    "list",
    "list --json",
    "status",
    "show my-session",
    "tree my-session",
    "search Hello",
    "stats my-session",
    "stats",
    "turns my-session",
    "tail my-session",
    "context my-session",
    "usage my-session",
    "plan my-session --keep 1",
    "heads my-session",
    "label my-session",
    "verify my-session",
    "repair my-session",
    "forest",
    "roots",
    "state list",
    "fork my-session --dry-run",
    "rebase my-session --messages 0 --dry-run",
    "export my-session",
    "continue --cwd /my/project",
    "rename my-session my-session",
    "archive my-session",
    "unarchive my-session",
    "delete my-session",
    "trash",
    "call server/ping",
    "start",
)
"""Commands that are recorded, in this order; those that an earlier version lacks are refused there."""

Talk = list[list[dict[str, Any]]]
"""Pairs of a request and its answer."""


def run(
    python: Sequence[str], command: str, place: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command of a command line on the daemon at a socket."""
    return subprocess.run(
        [*python, "-P", "-m", "sessiond", "--socket", os.fspath(place), *command.split()],
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@contextmanager
def told(place: Path, daemon: Path) -> Iterator[Talk]:
    """Serve a socket in front of a daemon, and note each request with its answer."""
    talk: Talk = []
    # Each connection numbers its requests anew, and the commands of a recording use one connection after the other.
    asked: dict[Any, dict[str, Any]] = {}

    def request(line: bytes) -> list[bytes]:
        asked[json.loads(line)["id"]] = json.loads(line)
        return [line]

    def answer(line: bytes) -> list[bytes]:
        message = json.loads(line)
        if "method" not in message:
            talk.append([asked.pop(message["id"]), message])
        return [line]

    with line_proxy(place, daemon, requests=request, answers=answer):
        yield talk


@contextmanager
def another_daemon(place: Path, version: str, talk: Sequence[Any] = ()) -> Iterator[None]:
    """Be a daemon of another version: with the answers of a recording, for the methods of a talk with those."""
    file = max(RECORDINGS.glob("*.jsonl"))
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    recorded = [pair for row in rows if row["side"] == "later" for pair in row["talk"]]
    own = {request["method"] for request, _ in talk}
    told = [*(pair for pair in recorded if pair[0]["method"] not in own), *talk]
    recorded_version = f'"version": "{file.stem.partition("-")[0]}"'
    text = json.dumps(told).replace(recorded_version, f'"version": "{version}"')
    with played(place, json.loads(text)):
        yield


@contextmanager
def played(place: Path, talk: Talk) -> Iterator[None]:
    """Be the daemon of a recording: give its answers by method, in their order, and the last one again.

    A request in a frame has its answer in a frame.
    """
    answers: dict[str, list[dict[str, Any]]] = {}
    for request, answer in talk:
        answers.setdefault(request["method"], []).append(answer)
    unknown = {"kind": "method_not_found", "retryable": False}
    refusal: dict[str, Any] = {
        "error": {"code": -32601, "message": "no such method", "data": unknown}
    }

    def serve(connection: socket.socket) -> None:
        # A client may leave before it has read its answers.
        with suppress(ConnectionError), connection, connection.makefile("rb") as lines:
            for line in lines:
                is_framed = line.startswith(b"Content-Length")
                if is_framed:
                    lines.readline()
                request = json.loads(lines.read(int(line.split()[1])) if is_framed else line)
                if "id" not in request:
                    continue
                known = answers.get(request["method"]) or [refusal]
                answer = known.pop(0) if len(known) > 1 else known[0]
                outcome: dict[str, Any] = {
                    name: answer[name] for name in ("result", "error") if name in answer
                }
                told = {"jsonrpc": "2.0", "id": request["id"], **outcome}
                body = json.dumps(told, separators=(",", ":")).encode()
                head = b"Content-Length: %d\r\n\r\n" % len(body)
                connection.sendall(head + body if is_framed else body + b"\n")

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the end of the block
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(os.fspath(place))
        listener.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
