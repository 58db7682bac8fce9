"""All requests that a daemon can get about one damaged file.

Law: the daemon's report equals that of `verify` without a daemon. A session shows the same
entries after it was closed and opened. New lines come behind all old bytes, or the old bytes
are copied aside first. A repair keeps every whole line, byte for byte, but for the parent of an entry
without one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from sessiond.journal.disk.files import Files
from sessiond.service.files.checking.verifying import VerifyScope, verify_file
from tests.fuzz.files import whole_lines
from tests.fuzz.plain import Answer, Plain
from tests.kit.repairs import repair_faults
from tests.kit.sessions import OWN

__all__ = ["inspected"]

_READS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("session/entries", {"types": ["message", "zz", "compaction"]}),
    ("session/path", {"limit": 10_000}),
    ("session/tree", {"layout": True}),
    ("session/tree", {"form": "text"}),
    ("session/tree", {"form": "nested"}),
    ("session/build_context", {}),
    ("session/turns", {}),
    ("session/turns", {"view": "agent", "from_end": True}),
    ("session/labels", {}),
    ("session/heads", {}),
)
_MOVES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("session/update", {"title": "another"}),
    ("session/branch", {"entry_id": None}),
    ("session/compact", {"summary": "short"}),
    ("session/rewind", {"to": None}),
    ("session/reset", {}),
)
_DAMAGE: Final = frozenset({"bad_header", "bad_line", "torn_tail", "incomplete_atom"})
_ENTRIES_ASKED: Final = 20
# The error of an append by the reason for which a session is read-only.
_REFUSED: Final = {
    None: None,
    "bad_line": "session_corrupt",
    "older_version": "session_read_only",
    "not_writable": "session_read_only",
}


def inspected(client: Plain, profile: Path, session_id: str, data: bytes) -> Iterator[str]:
    """Put a file into the profile, make every request, and yield the faults."""
    path = profile / "sessions" / f"2026-01-01T00-00-00-000000_{session_id}.jsonl"
    path.write_bytes(data)
    inspection = _Inspection(client, path, session_id, data)
    yield from inspection.run()
    yield from client.faults
    client.faults.clear()
    client.told.clear()
    client.call("session/delete", session_id=session_id)
    path.unlink(missing_ok=True)


class _Inspection:
    def __init__(self, client: Plain, path: Path, session_id: str, data: bytes) -> None:
        self._client = client
        self._path = path
        self._id = session_id
        self._data = data

    def _ask(self, method: str, **params: Any) -> Answer:
        return self._client.call(method, session_id=self._id, **params)

    def run(self) -> Iterator[str]:
        look = VerifyScope(named=self._id)
        alone = json.loads(msgspec.json.encode(verify_file(Files(), self._path, look)))
        served = self._ask("session/verify").result
        if served != alone:
            yield f"verify says {alone} without a daemon and {served} with it"
        info = self._ask("session/get")
        yield from self._imported()
        if info.error is not None:
            yield from self._refused(info, alone)
            return
        if alone["dialect"] is None or info.result["session"]["read_only"] != alone["read_only"]:
            yield f"it is open, and verify says {alone}"
        yield from self._read()
        yield from self._unchanged(alone)
        yield from self._written(alone)
        yield from self._shown_again()
        yield from self._repaired(info.result["session"]["dialect"])
        yield from self._shown_again()

    def _refused(self, answer: Answer, alone: dict[str, Any]) -> Iterator[str]:
        if answer.kind != "session_corrupt" or alone["dialect"] is not None:
            yield f"it cannot be opened ({answer!r}), and verify says {alone}"
        self._ask("session/repair", dry_run=False)
        if self._path.read_bytes() != self._data:
            yield "it cannot be opened, and was changed"

    def _read(self) -> Iterator[str]:
        for method, params in _READS:
            answer = self._ask(method, **params)
            if answer.kind not in {None, "too_large"}:
                yield f"{method} {params}: {answer!r}"
        exported = self._ask("session/export")
        if exported.error is None and exported.result.get("notes"):
            # The export was translated from another dialect, and must be a native session.
            copied = self._client.call("session/import", content=exported.result["content"])
            if copied.error is not None:
                yield f"its export cannot be imported: {copied!r}"
            else:
                self._client.call("session/delete", session_id=copied.result["session"]["id"])
        elif exported.kind not in {None, "session_corrupt"}:
            yield f"export: {exported!r}"
        yield from self._watched()

    def _unchanged(self, alone: dict[str, Any]) -> Iterator[str]:
        """Yield a fault if reads have changed the file or left files beside it."""
        beside = [path.name for path in self._path.parent.glob(f"{self._path.name}.*")]
        if self._path.read_bytes() != self._data or beside:
            yield f"reading it changed it, and left {beside} beside it"
        served = self._ask("session/verify").result
        if served != alone:
            yield f"verify says {alone} before it was opened and {served} while it is open"

    def _watched(self) -> Iterator[str]:
        rows = self._ask("session/entries", limit=10_000).result["entries"]
        self._client.told.clear()
        self._ask("session/subscribe", after={"seq": 0})
        self._ask("session/flush")
        told = [one["params"] for one in self._client.told if one["method"] == "session/event"]
        if [(one["seq"], one["entry"]) for one in told] != [(r["seq"], r["entry"]) for r in rows]:
            yield f"{len(told)} events are not the {len(rows)} entries"
        self._ask("session/unsubscribe")
        for row in rows[:_ENTRIES_ASKED]:
            entry_id = row["entry"]["id"]
            for method in ("session/entry", "session/build_context"):
                answer = self._ask(method, entry_id=entry_id)
                if answer.kind not in {
                    None,
                    "entry_not_found",
                    "invalid_params",
                    "invalid_request",
                }:
                    yield f"{method} of {entry_id!a}: {answer!r}"
            twin = {"type": "custom", "id": entry_id, "custom_type": "a twin"}
            if self._ask("session/append", entry=twin).error is None:
                yield f"a second entry is called {entry_id!a}"

    def _written(self, alone: dict[str, Any]) -> Iterator[str]:
        answer = self._ask("session/append", message=OWN[alone["dialect"]])
        wanted = _REFUSED[self._ask("session/get").result["session"]["read_only_reason"]]
        if (wanted is not None) != alone["read_only"]:
            yield f"an append should come to {wanted}, and verify says {alone}"
        if answer.kind != wanted:
            yield f"an append came to {answer!r}, and verify says {alone}"
        if not self._is_kept():
            yield f"{len(self._data)} bytes of it are not kept by {answer!r}"
        for method, params in _MOVES:
            self._ask(method, **params)

    def _is_kept(self) -> bool:
        """Return whether every old byte is in the file, or was copied aside before a cut."""
        now = self._path.read_bytes()
        if now.startswith(self._data):
            return True
        aside = [path.read_bytes() for path in self._path.parent.glob(f"*{self._id}*.torn-*")]
        for count in range(1, len(aside) + 1):
            for pieces in itertools.permutations(aside, count):
                end = b"".join(pieces)
                if self._data.endswith(end) and now.startswith(self._data.removesuffix(end)):
                    return True
        return False

    def _shown_again(self) -> Iterator[str]:
        before = self._shown()
        self._ask("session/close")
        for name, value in self._shown().items():
            if before[name] != value:
                yield f"opened again, {name} is {value!a:.500}, not {before[name]!a:.500}"

    def _shown(self) -> dict[str, Any]:
        entries = self._ask("session/entries", limit=10_000).result["entries"]
        shown = {"entries": entries, "nodes": self._ask("session/tree").result["nodes"]}
        info = self._ask("session/get").result["session"]
        # What was cut before the first change was a problem until then, and is none any more. A new
        # epoch is allowed where the catalog is in doubt, which notes a change a second later.
        return {**info, **shown, "problems": None, "epoch": None}

    def _repaired(self, dialect: str) -> Iterator[str]:
        before = self._path.read_bytes()
        answer = self._ask("session/repair", dry_run=False)
        found = self._ask("session/verify").result
        if dialect != "native":
            if self._path.read_bytes() != before:
                yield "a file of another program was made anew"
            return
        left = {problem["kind"] for problem in found["problems"]} & _DAMAGE
        if answer.error is not None or left or found["repairable"] or found["read_only"]:
            yield f"after a repair ({answer!r}) verify says {found}"
            return
        made = whole_lines(self._path.read_bytes())
        for fault in repair_faults(whole_lines(before), made, answer.result["moved"]):
            yield f"{fault}: {answer!r}"
        if self._ask("session/append", message=OWN[dialect]).error is not None:
            yield "what was repaired cannot be written"

    def _imported(self) -> Iterator[str]:
        copied = self._client.call("session/import", path=str(self._path))
        if copied.error is not None:
            if copied.kind != "session_corrupt":
                yield f"an import came to {copied!r}"
            return
        session_id = copied.result["session"]["id"]
        found = self._client.call("session/verify", session_id=session_id).result
        if {problem["kind"] for problem in found["problems"]} & _DAMAGE:
            yield f"an import took damage with it: {found}"
        self._client.call("session/delete", session_id=session_id)
