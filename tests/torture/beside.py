"""A program that knows no sessiond: it appends whole lines to session files that are open there.

Law: one `write` for a line or a few, with O_APPEND, as such programs do. It believes in
the last entry that it finds in the file: half the time of those in the tree, else of all, as
programs do for which labels and names are entries like any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tests.torture.payloads import digest
from tests.torture.records import Connected, Log, Writing, Wrote, now
from tests.torture.replay import RECORDS

__all__ = ["Stranger"]

TAIL_BYTES: Final = 1 << 18
PAUSE_SECONDS: Final = 0.6


class _Line(msgspec.Struct):
    type: str
    id: str


class Stranger:
    """A program that writes to session files beside the daemon."""

    def __init__(self, name: str, log: Log, chance: Random) -> None:
        self._name = name
        self._log = log
        self._chance = chance
        self._count = 0
        log.add(Connected(now(), name, "file"))

    def go_on(self, profile: Path, must_stop: Callable[[float], bool]) -> None:
        """Append some lines to any session file, again and again, until it must stop."""
        while not must_stop(self._chance.uniform(0, PAUSE_SECONDS)):
            paths = sorted((profile / "sessions").glob("*.jsonl"))
            if not paths:
                continue
            path = self._chance.choice(paths)
            try:
                fd = os.open(path, os.O_RDWR | os.O_APPEND)
            except FileNotFoundError:
                # Just archived.
                continue
            try:
                self._append(fd, path.stem.rpartition("_")[2])
            finally:
                os.close(fd)

    def _append(self, fd: int, session: str) -> None:
        parent = _last(fd, of_all=self._chance.random() < 0.5)
        lines: dict[str, bytes] = {}
        for _ in range(self._chance.randrange(1, 4)):
            self._count += 1
            id_ = f"{self._name}-{self._count}"
            fields = {
                "type": self._chance.choice(["x.other", "custom"]),
                "id": id_,
                "parent_id": parent,
                "timestamp": "2026-01-15T10:30:00.000Z",
                "mark": id_,
                "custom_type": "beside",
            }
            lines[id_] = msgspec.json.encode(fields)
            parent = id_
        for id_, line in lines.items():
            self._log.add(Writing(now(), self._name, session, id_, digest(line)))
        os.write(fd, b"".join(line + b"\n" for line in lines.values()))
        for id_ in lines:
            self._log.add(Wrote(now(), self._name, session, id_))


def _last(fd: int, *, of_all: bool) -> str | None:
    """Return the id of the last entry in the file; without `of_all`, of the last node."""
    others = {"session_header"} if of_all else {"session_header", *RECORDS}
    size = os.fstat(fd).st_size
    lines = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES)).split(b"\n")
    for line in reversed(lines[1:-1]):
        try:
            found = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            continue
        if found.type not in others:
            return found.id
    return None
