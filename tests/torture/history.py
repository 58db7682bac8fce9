"""A history written by hand, with nothing wrong in it until a test spoils it.

Two sessions' worth of clients do a little of everything on one session: `a` on a raw
connection with a live subscription, `b` with a library, `w` watches raw and `v` by library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tests.torture.payloads import digest, spelled
from tests.torture.records import (
    Act,
    Answered,
    Asked,
    Connected,
    Flushed,
    Heard,
    Killed,
    Lost,
    Record,
    Refused,
    Seen,
    Sent,
    Synced,
    Watching,
    Writing,
    Wrote,
)
from tests.torture.sights import chain
from tests.torture.verdict import verdict

__all__ = ["SESSION", "History"]

SESSION = "s-one"
R = TypeVar("R", bound=Record)
_HEADER = b'{"type":"session_header","version":1,"id":"s-one","timestamp":"","cwd":"/p"}'


class History:
    """Lines of a file, and a log for each actor."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.logs: dict[str, list[Any]] = {name: [] for name in ("a#1", "b", "v", "w#1")}
        self.leaves: dict[str, str | None] = {"main": None}
        self.is_torn = False
        """True if the last line lacks its end."""
        self._t = 0
        self._n = 0
        for conn in self.logs:
            kind = {"b": "blocking", "v": "library"}.get(conn, "raw")
            self.log(conn, Connected(self.tick(), conn, kind))
        self.log("a#1", Watching(self.tick(), "a#1", SESSION, 0, "e"))
        self.log("v", Watching(self.tick(), "v", SESSION, 0, "", 0))
        self.log("w#1", Watching(self.tick(), "w#1", SESSION, 0, "e", 0, signals=True))
        self.log("w#1", Synced(self.tick(), "w#1", SESSION, 0))
        self._tell()

    def faults(self) -> list[str]:
        """Return the faults that the checker finds."""
        file = b"".join(line + b"\n" for line in [_HEADER, *self.lines])
        if self.is_torn:
            file = file[:-1]
        return verdict(self.logs.values(), {SESSION: file})

    # -- spoiling --------------------------------------------------------------------------

    def change(self, kind: type[R], test: Callable[[R], bool], **fields: Any) -> None:
        """Other fields for the one record of a kind that passes the test."""
        found = [
            (log, at)
            for log in self.logs.values()
            for at, record in enumerate(log)
            if isinstance(record, kind) and test(record)
        ]
        assert len(found) == 1, found
        ((log, at),) = found
        log[at] = msgspec.structs.replace(log[at], **fields)

    def answer(self, method: str, **sight: Any) -> None:
        """Another answer to the one request of a method."""
        numbers = [
            (record.conn, record.n)
            for log in self.logs.values()
            for record in log
            if isinstance(record, Asked) and record.act.method == f"session/{method}"
        ]
        ((conn, n),) = numbers
        (old,) = (
            record.sight
            for record in self.logs[conn]
            if isinstance(record, Answered) and record.n == n
        )
        self.change(Answered, lambda one: (one.conn, one.n) == (conn, n), sight={**old, **sight})

    def store(self, old: bytes, new: bytes) -> None:
        """Other bytes in the file, and in every event."""
        before = [digest(line) for line in self.lines]
        self.lines = [line.replace(old, new) for line in self.lines]
        after = dict(zip(before, map(digest, self.lines), strict=True))
        for log in self.logs.values():
            log[:] = [
                msgspec.structs.replace(one, digest=after[one.digest])
                if isinstance(one, Seen)
                else one
                for one in log
            ]

    # -- telling ---------------------------------------------------------------------------

    def tick(self) -> int:
        self._t += 10
        return self._t

    def log(self, conn: str, record: Record) -> None:
        self.logs.setdefault(conn, []).append(record)

    def ask(self, conn: str, method: str, *entries: Sent, **params: Any) -> int:
        """Record a request; return its number."""
        self._n += 1
        act = Act(f"session/{method}", SESSION, params, entries)
        self.log(conn, Asked(self.tick(), conn, self._n, act))
        return self._n

    def told(self, conn: str, n: int, **sight: Any) -> None:
        self.log(conn, Answered(self.tick(), conn, n, sight))

    def refused(self, conn: str, n: int, kind: str, **data: Any) -> None:
        self.log(conn, Refused(self.tick(), conn, n, kind, data))

    def line(self, entry: bytes, id_: str, head: str = "main", parent: str | None = None) -> int:
        """Store an entry and send its event to all watchers; return its seq."""
        fields = msgspec.json.decode(entry, type=dict[str, msgspec.Raw])
        word = msgspec.json.decode(fields["type"])
        fields["id"] = msgspec.Raw(msgspec.json.encode(id_))
        fields["parent_id"] = msgspec.Raw(msgspec.json.encode(parent))
        fields["timestamp"] = msgspec.Raw(b'"2026-01-15T10:30:%02d.000Z"' % len(self.lines))
        if head != "main":
            fields["head"] = msgspec.Raw(msgspec.json.encode(head))
        line = msgspec.json.encode(fields)
        self.lines.append(line)
        if word == "leaf":
            self.leaves[head] = msgspec.json.decode(fields["target_id"])
        elif word not in {"label", "session_info"}:
            self.leaves[head] = id_
        moves = word not in {"label", "session_info"}
        seq = len(self.lines)
        for conn in ("a#1", "v", "w#1"):
            told = (head, self.leaves[head]) if moves else (None, "")
            seen = Seen(self.tick(), conn, SESSION, seq, id_, digest(line), "e", *told)
            self.log(conn, seen)
        return seq

    def beside(self, id_: str, parent: str | None) -> None:
        """Record a line of another program, which live watchers are told of."""
        self.log("b", Writing(self.tick(), "b", SESSION, id_, ""))
        self.log("b", Wrote(self.tick(), "b", SESSION, id_))
        seq = self.line(b'{"type":"x.note"}', id_, parent=parent)
        written = digest(self.lines[-1])
        self.change(Writing, lambda one: one.id == id_, digest=written)
        for log in self.logs.values():
            log[:] = [
                msgspec.structs.replace(one, external=True)
                if isinstance(one, Seen) and one.seq == seq
                else one
                for one in log
            ]

    def append(
        self,
        conn: str,
        *marks: str,
        parent: str | None,
        meanwhile: Callable[[], None] = lambda: None,
        **params: Any,
    ) -> None:
        """Record a successful append of one or more messages with their own ids.

        What happens `meanwhile` is stored behind the request and before its lines.
        """
        sent = [Sent("message", mark, mark, flavour=index) for index, mark in enumerate(marks)]
        head = params.get("head", "main")
        n = self.ask(conn, "append", *sent, **params)
        meanwhile()
        rows = []
        for index, one in enumerate(sent, 1):
            entry = bytes(spelled(one))
            if len(sent) > 1:
                entry = entry[:-1] + b',"atom":[%d,%d]}' % (index, len(sent))
            seq = self.line(entry, one.mark, head, parent)
            rows.append({"id": one.mark, "parent_id": parent, "seq": seq})
            parent = one.mark
        self.told(conn, n, entries=rows, leaf_id=parent, seq=len(self.lines), head=head)

    def _tell(self) -> None:
        self.append("a#1", "m1", parent=None)
        self.append("b", "m2", parent="m1", expected={"leaf_id": "m1"})
        self.append("a#1", "m3", "m4", parent="m2")
        n = self.ask("b", "append", Sent("message", "m5"), expected={"leaf_id": "m1"})
        actual = {"leaf_id": "m4", "seq": 4}
        self.refused("b", n, "precondition_failed", actual=actual)
        n = self.ask("a#1", "branch", head="h", entry_id="m1")
        seq = self.line(b'{"type":"leaf","target_id":"m1","reason":"branch"}', "r5", "h", None)
        self.told("a#1", n, leaf_id="m1", head="h", seq=seq)
        self.append("b", "m6", parent="m1", head="h")
        n = self.ask("b", "label", entry_id="m1", label="l7")
        seq = self.line(b'{"type":"label","target_id":"m1","label":"l7"}', "r7", "main", "m4")
        self.told("b", n, seq=seq)
        self._lease()
        self._signal()
        self._look()
        n = self.ask("b", "append", Sent("message", "m1", "m1"))
        row = {"id": "m1", "parent_id": None, "seq": 1}
        self.told("b", n, entries=[row], leaf_id="m9", seq=1, head="main", duplicate=True)
        self._end()

    def _lease(self) -> None:
        n = self.ask("b", "acquire", head="main", ttl_ms=1000)
        self.told("b", n, lease_id="L1", epoch=5)
        self.append("b", "m8", parent="m4", lease_id="L1")
        n = self.ask("a#1", "append", Sent("message", "x1"))
        self.refused("a#1", n, "lease_held")
        self.append("b", "m9", parent="m8", lease_id="L1")
        n = self.ask("b", "release", lease_id="L1")
        self.told("b", n)
        n = self.ask("a#1", "acquire", head="main", ttl_ms=1000)
        self.told("a#1", n, lease_id="L2", epoch=6)

    def _signal(self) -> None:
        for mark in ("s1", "s2", "s3"):
            n = self.ask("b", "signal", kind="delta", data={"mark": mark})
            self.log("w#1", Heard(self.tick(), "w#1", SESSION, mark))
            self.told("b", n)

    def _look(self) -> None:
        """Every kind of answer that shows something, after nine lines."""
        rows = [[seq, digest(line)] for seq, line in enumerate(self.lines, 1)]
        heads = [
            {"name": "main", "leaf_id": "m9", "seq": 9},
            {"name": "h", "leaf_id": "m6", "seq": 6},
        ]
        n = self.ask("b", "entries", after_seq=6, limit=10)
        self.told("b", n, rows=rows[6:], next=None, seq=9)
        n = self.ask("b", "get")
        self.told("b", n, seq=9, leaf_id="m9", heads=heads, title=None, message_total=7)
        n = self.ask("b", "heads")
        self.told("b", n, heads=heads)
        n = self.ask("b", "labels", limit=10)
        self.told("b", n, labels=[["m1", "l7"]])
        n = self.ask("b", "entry", entry_id="m1")
        self.told("b", n, row=[*rows[0], ["m2", "m6"], "l7"])
        n = self.ask("b", "path", head="h", limit=10)
        self.told("b", n, rows=[[*rows[0], 2, "l7"], [*rows[5], 0, None]], more=False)
        n = self.ask("b", "tree", limit=2)
        first = ["m1", 1, "message", True, "l7", 2, None, "as it says"]
        nodes = [first, ["m2", 2, "message", True, None, 1, "m1", "as it says"]]
        self.told("b", n, nodes=nodes, seq=9)
        n = self.ask("b", "build_context", head="h", known={"leaf_id": "m1", "count": 1})
        message = msgspec.json.decode(self.lines[5], type=dict[str, msgspec.Raw])["message"]
        self.told(
            "b",
            n,
            leaf_id="m6",
            seq=9,
            unchanged=1,
            count=1,
            messages=chain([digest(message)]),
            sources=chain(["m6"]),
        )

    def _end(self) -> None:
        """Record a foreign line, lost answers, and the kill of the daemon."""
        self.beside("f10", "m9")
        n = self.ask("b", "append", Sent("message", "m11"), Sent("message", "m12"))
        for index, mark in enumerate(("m11", "m12"), 1):
            entry = bytes(spelled(Sent("message", mark)))[:-1] + b',"atom":[%d,2]}' % index
            self.line(entry, f"id {mark}", parent="f10" if index == 1 else "id m11")
        self.log("b", Lost(self.tick(), "b", n))
        n = self.ask("a#1", "append", Sent("message", "m13"))
        self.log("a#1", Lost(self.tick(), "a#1", n))
        self.log("killer", Killed(self.tick(), "killer", "daemon", "kill"))
        self.log("w#1", Connected(self.tick(), "w#2", "raw"))
        self.log("w#1", Watching(self.tick(), "w#2", SESSION, 12, "e", 12))
        self.log("w#1", Synced(self.tick(), "w#2", SESSION, 12))
        self.log("w#1", Flushed(self.tick(), "w#2", SESSION, 12))
        n = self.ask("b", "rewind", to="m9")
        seq = self.line(
            b'{"type":"leaf","target_id":"m9","reason":"rewind"}', "r13", parent="id m12"
        )
        self.told("b", n, leaf_id="m9", head="main", seq=seq)
