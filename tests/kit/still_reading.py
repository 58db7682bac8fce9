"""A daemon that says of its first lists and searches that it is still reading sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.kit.line_proxy import line_proxy

__all__ = [
    "LOOKING",
    "UNREADABLE",
    "UNSEARCHED",
    "Reading",
    "missing_rows",
    "still_reading",
    "whole_answers_only",
]

LOOKING: Final = {"done": 2, "total": 4, "until": "2026-11-20T01:00:00.000Z"}


class Reading:
    """The questions that a daemon got, and the end of the daemon's reading."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.shown = 1
        """Number of the hits and sessions that are read by now."""
        self.is_over = threading.Event()


@contextmanager
def still_reading(place: Path, daemon: Path) -> Iterator[Reading]:
    """Serve a socket whose lists and searches lack their last rows until `is_over`."""
    reading = Reading()

    def request(line: bytes) -> list[bytes]:
        body = msgspec.json.decode(line)
        if body.get("method") in {"session/list", "session/search"}:
            reading.asked.append(body)
        return [line]

    def answer(line: bytes) -> list[bytes]:
        body = msgspec.json.decode(line)
        result = body.get("result") or {}
        rows = "hits" if "hits" in result else "sessions" if "looking" in result else None
        if rows is None or reading.is_over.is_set():
            return [line]
        if reading.asked[-1]["params"].get("whole", True):
            late = {"code": -32603, "message": "a whole answer waits", "data": {"kind": "late"}}
            return [
                msgspec.json.encode({"jsonrpc": "2.0", "id": body["id"], "error": late}) + b"\n"
            ]
        body["result"] |= {rows: result[rows][: reading.shown], "looking": LOOKING}
        return [msgspec.json.encode(body) + b"\n"]

    with line_proxy(place, daemon, requests=request, answers=answer):
        yield reading


UNREADABLE: Final = [{"path": "/srv/agents", "reason": "does not answer"}]
UNSEARCHED: Final = [{"texts": "outputs of tools", "before": "2026-03-01T10:00:00.000Z"}]


@contextmanager
def missing_rows(place: Path, daemon: Path) -> Iterator[None]:
    """Serve a socket whose searches miss a root that cannot be read, and texts without room in the index."""

    def answer(line: bytes) -> list[bytes]:
        body = msgspec.json.decode(line)
        if "hits" not in (body.get("result") or {}):
            return [line]
        body["result"] |= {"unreadable": UNREADABLE, "unsearched": UNSEARCHED}
        return [msgspec.json.encode(body) + b"\n"]

    with line_proxy(place, daemon, answers=answer):
        yield


@contextmanager
def whole_answers_only(place: Path, daemon: Path) -> Iterator[None]:
    """Serve a socket whose daemon does not know `whole`, as daemons of version 0.1.0."""

    def request(line: bytes) -> list[bytes]:
        return [line.replace(b'"whole":false', b'"whole":"unknown"')]

    with line_proxy(place, daemon, requests=request):
        yield
