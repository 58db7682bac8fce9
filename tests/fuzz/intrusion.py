"""A foreign writer that writes lines, half lines and garbage into an open session's file.

Law: every foreign byte is there afterwards, in order. Every acknowledged entry is at its
acknowledged place. A subscriber has seen every entry exactly once. The last foreign bytes are still
there, and still served, when the session is opened again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fuzz.mutations import mutated_body, noise
from tests.fuzz.plain import Answer, Plain
from tests.fuzz.samples import samples
from tests.kit.sessions import OWN

__all__ = ["intruded"]

# The foreign writer spells its lines as these programs do.
_DIALECTS: Final = ("native", "pi", "operator")
_STEPS_MAX: Final = 25
# Longer than a daemon waits for the rest of half a line.
_HALF_SECONDS: Final = 10


def intruded(writer: Plain, watcher: Plain, profile: Path, seed: int) -> Iterator[str]:
    """Let the daemon and a foreign writer write to one session at once; yield the faults."""
    session_id = f"session-{seed}"
    path = profile / "sessions" / f"2026-01-01T00-00-00-000000_{session_id}.jsonl"
    dice = random.Random(seed)
    path.write_bytes(dice.choice(samples(*_DIALECTS)))
    if writer.call("session/get", session_id=session_id).error is None:
        yield from _Intrusion(writer, watcher, session_id, path, dice).run()
    yield from (*writer.faults, *watcher.faults)
    for client in (writer, watcher):
        client.faults.clear()
        client.told.clear()
    writer.call("session/delete", session_id=session_id)
    path.unlink(missing_ok=True)


class _Intrusion:
    def __init__(
        self, writer: Plain, watcher: Plain, session_id: str, path: Path, dice: random.Random
    ) -> None:
        self._writer = writer
        self._watcher = watcher
        self._id = session_id
        self._path = path
        self._dice = dice
        self._base = path.read_bytes()
        header = json.loads(self._base.split(b"\n")[0])
        self._is_older = header["type"] == "session" and header.get("version") != 3
        self._foreign: list[bytes] = []
        self._acknowledged: dict[str, int] = {}

        info = writer.call("session/get", session_id=session_id).result["session"]
        self._said = OWN[info["dialect"]]

    def run(self) -> Iterator[str]:
        self._watcher.call("session/subscribe", session_id=self._id, after={"seq": 0})
        for step in range(self._dice.randrange(1, _STEPS_MAX)):
            turn = self._dice.random()
            if turn < 0.4:
                self._write()
            elif turn < 0.8:
                yield from self._append(f"own-{step}")
            elif turn < 0.9:
                self._writer.call("session/build_context", session_id=self._id)
            else:
                self._writer.call("session/close", session_id=self._id)
        yield from self._append("last")
        yield from self._account()
        self._watcher.call("session/unsubscribe", session_id=self._id)
        yield from self._half_goes_on()
        yield from self._opened_again()
        yield from self._saved_in_place()

    def _half_goes_on(self) -> Iterator[str]:
        """Leave half a line, open the session, and let the foreign writer finish the line.

        An append of ours comes behind the rest of the line, or before the rest, too.
        """
        if self._writer.call("session/get", session_id=self._id).result["session"]["read_only"]:
            return
        self._let_go()
        line = json.dumps({"type": "message", "id": "late"}, separators=(",", ":")).encode()
        cut = self._dice.randrange(1, len(line))
        with self._path.open("ab") as file:
            file.write(b"\n" + line[:cut])
        long_ago = time.time() - _HALF_SECONDS
        os.utime(self._path, (long_ago, long_ago))
        before = self._path.read_bytes()
        self._writer.call("session/get", session_id=self._id)
        if self._dice.random() < 0.5:
            yield from self._append_beside("half a line")
        if not self._path.read_bytes().startswith(before):
            yield "half a line of another program was cut"
        with self._path.open("ab") as file:
            file.write(line[cut:] + b"\n")
        yield from self._append_beside("the rest of half a line")

    def _append_beside(self, what: str) -> Iterator[str]:
        answer = self._writer.call("session/append", session_id=self._id, message=self._said)
        if answer.error is not None:
            yield f"behind {what} an append came to {answer!r}"

    def _opened_again(self) -> Iterator[str]:
        """Leave part of an append of another session at the end while the session is closed."""
        self._let_go()
        count = self._dice.randrange(2, 4)
        part = b"".join(
            self._part(number, count) for number in range(1, self._dice.randrange(2, count + 1))
        )
        with self._path.open("ab") as file:
            # Half a line may stand there.
            file.write(b"\n" + part)
        before = self._path.read_bytes()
        page = self._writer.call("session/entries", session_id=self._id, limit=10_000)
        if not self._path.read_bytes().startswith(before):
            yield "what another program wrote last was cut at an opening"
        served = page.result["entries"]
        # In a list of an older version the id that a line brings does not count.
        if not any(_is_part(row["entry"]) for row in served):
            yield "what another program wrote last is not served after an opening"

    def _saved_in_place(self) -> Iterator[str]:
        """Change a word above the last line, as an editor does, while the session is closed."""
        content = self._path.read_bytes()
        at = content.find(b'"own"')
        if at < 0:
            return
        before = self._writer.call("session/get", session_id=self._id).result["session"]
        self._let_go()
        with self._path.open("r+b") as file:
            file.seek(at)
            file.write(b'"OWN"')
        cursor = {"seq": before["seq"], "epoch": before["epoch"]}
        answer = self._watcher.call("session/subscribe", session_id=self._id, after=cursor)
        if answer.error is None and answer.result.get("replaced") != "epoch":
            yield f"a cursor from before a save in place came to {answer!r}"
        self._watcher.call("session/unsubscribe", session_id=self._id)

    def _part(self, number: int, count: int) -> bytes:
        """Return a line of an append with several entries, as another session has it."""
        parent = "parentId" if b'"parentId"' in self._base else "parent_id"
        fields: dict[str, Any] = {
            "type": "message",
            "id": f"part-{number}",
            parent: None,
            "timestamp": "2026-01-15T10:30:00.000Z",
            "atom": [number, count],
            "message": {"role": "user", "content": "elsewhere", "timestamp": 1},
        }
        if number == 1 and self._dice.random() < 0.5:
            fields["atom_of"] = "elsewhere"
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def _let_go(self) -> None:
        for client in (self._writer, self._watcher):
            client.call("session/close", session_id=self._id)

    def _write(self) -> None:
        """Write to the file as a foreign writer does."""
        lines = self._dice.choice(samples(*_DIALECTS)).split(b"\n")[1:-1]
        data = self._dice.choice(lines)
        if self._dice.random() < 0.5:
            data = mutated_body(data, self._dice, lines)
        if self._dice.random() < 0.05:
            data = noise(self._dice, 50)
        if self._dice.random() < 0.75:
            data += b"\n"
        else:
            data = data[: self._dice.randrange(len(data) + 1)]
        with self._path.open("ab") as file:
            file.write(data)
        self._foreign.append(data)

    def _append(self, entry_id: str) -> Iterator[str]:
        entry = {"type": "message", "id": entry_id, "message": self._said}
        answer = self._writer.call("session/append", session_id=self._id, entry=entry)
        if answer.error is None:
            self._acknowledged[entry_id] = answer.result["seq"]
        elif answer.kind != ("session_read_only" if self._is_older else "session_corrupt"):
            # A bad line makes a native session read-only, even if a foreign writer wrote it.
            yield f"an append came to {answer!r}"

    def _account(self) -> Iterator[str]:
        page = self._writer.call("session/entries", session_id=self._id, limit=10_000)
        if page.error is not None:
            yield f"it cannot be read: {page!r}"
            return
        rows = [(row["seq"], row["entry"]["id"]) for row in page.result["entries"]]
        lost = {one for one in self._acknowledged.items() if one[::-1] not in rows}
        if lost:
            yield f"acknowledged and not there: {lost}"
        yield from self._kept()
        yield from self._told(rows, self._watcher.call("session/flush", session_id=self._id))

    def _kept(self) -> Iterator[str]:
        now = self._path.read_bytes()
        aside = b"".join(
            path.read_bytes() for path in self._path.parent.glob(f"*{self._id}*.torn-*")
        )
        if not now.startswith(self._base):
            yield "what was there first is not there"
        at = len(self._base)
        for data in self._foreign:
            found = now.find(data, at)
            if found < 0 and data not in aside:
                yield f"of another program, and lost: {data[:300]!a}"
            at = max(at, found + len(data))

    def _told(self, rows: list[Any], flushed: Answer) -> Iterator[str]:
        told = self._watcher.told
        if flushed.error is not None or any(one["method"] == "session/replaced" for one in told):
            yield f"the watcher lost its place: {flushed!r}"
            return
        events = [one["params"] for one in told if one["method"] == "session/event"]
        if [(one["seq"], one["entry"]["id"]) for one in events] != rows:
            yield f"{len(events)} events are not the {len(rows)} entries"


def _is_part(entry: dict[str, Any]) -> bool:
    message = entry.get("message")
    return isinstance(message, dict) and message.get("content") == "elsewhere"
