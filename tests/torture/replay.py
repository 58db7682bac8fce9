"""A second reader of native session files, written from the rules of the protocol alone.

Law: this module imports nothing of sessiond. A `Replay` stands after one line of the file, and
`advance` moves it to the next line, so the checker can compare any answer with the session at
any seq.

seq 0 is the header; as a parent or leaf, 0 is the place before the first entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from tests.torture.payloads import digest, mark_of

__all__ = ["RECORDS", "Replay", "Row", "read_rows"]

RECORDS: Final = frozenset({"label", "session_info", "leaf"})
_STAND_INS: Final = {
    "custom_message": "custom",
    "branch_summary": "branch_summary",
    "compaction": "compaction_summary",
}
_ENVELOPE: Final = frozenset({"type", "id", "parent_id", "head", "atom", "atom_of", "role"})
_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_read: Final = msgspec.json.decode


class Row(Struct, frozen=True):
    """A line of the file."""

    seq: int
    type: str
    id: str
    parent_id: str | None
    head: str
    atom: tuple[int, int] | None
    mark: str | None
    digest: str
    fields: dict[str, Raw]

    @property
    def is_entry(self) -> bool:
        """Blank lines and those that do not parse are none, and keep their seq."""
        return bool(self.type)

    def text(self, name: str) -> Any:
        """Return a field, decoded; None if it is absent."""
        return _read(self.fields[name]) if name in self.fields else None


def read_rows(file: bytes) -> tuple[list[Row], list[str]]:
    """Return the entries of a file, the first with seq 1, and the faults of the file."""
    *lines, tail = file.split(b"\n")
    found = [f"the file ends in the middle of line {len(lines)}"] if tail else []
    rows: list[Row] = []
    for seq, line in enumerate(lines[1:], 1):
        try:
            rows.append(_row(seq, line))
        except (msgspec.DecodeError, KeyError) as error:
            if line.strip():
                found.append(f"line {seq} is no entry: {error}")
            rows.append(Row(seq, "", "", None, "main", None, None, digest(line), {}))
    return rows, found


def _row(seq: int, line: bytes) -> Row:
    fields = _fields(line)
    word: str = _read(fields["type"])
    atom = tuple(_read(fields["atom"])) if "atom" in fields else None
    return Row(
        seq,
        word,
        _read(fields["id"]),
        _read(fields["parent_id"]),
        _read(fields["head"]) if "head" in fields else "main",
        atom,
        mark_of(fields),
        digest(line),
        fields,
    )


class Replay:
    """The session after `seq` lines."""

    def __init__(self, rows: list[Row], foreign: Collection[int] = ()) -> None:
        self.rows = rows
        self._foreign = foreign
        self.seq = 0
        self.by_id: dict[str, int] = {}
        """Entries of any type by id."""
        self.parents = [0]
        """The parent of each entry in the tree; for a record, its place."""
        self.children: dict[int, list[int]] = {0: []}
        """The children of the tree's nodes, in file order; those of 0 are the roots."""
        self.heads: dict[str, tuple[int, int]] = {"main": (0, 0)}
        """The leaf of each head, and the line that moved the head last."""
        self.moves: dict[str, list[tuple[int, int]]] = {"main": [(0, 0)]}
        """The places that each head has had in `heads`, the latest last; a dropped head has no moves."""
        self.labels: dict[int, str] = {}
        self.title: str | None = None
        self.message_total = 0

    def advance(self) -> list[str]:
        """Take the next line; what is wrong with it, in words."""
        row = self.rows[self.seq]
        self.seq += 1
        if not row.is_entry:
            self.parents.append(0)
            return []
        found = self._entry(row)
        if row.head not in self.heads:
            self.moves.pop(row.head, None)
        elif self.heads[row.head][1] == row.seq:
            self.moves.setdefault(row.head, []).append(self.heads[row.head])
        return found

    def _entry(self, row: Row) -> list[str]:
        found: list[str] = []
        if row.id in self.by_id:
            found.append(f"{row.id} is the id of two entries, {self.by_id[row.id]} and {row.seq}")
        if row.parent_id is not None and row.parent_id not in self.by_id:
            found.append(f"the parent of {row.seq} is no earlier entry")
        parent = 0 if row.parent_id is None else self.stand(row.parent_id)
        self.by_id[row.id] = row.seq
        self.parents.append(parent)
        if row.type in RECORDS:
            found += self._record(row)
            return found
        self.children.setdefault(parent, []).append(row.seq)
        self.children.setdefault(row.seq, [])
        self.heads[row.head] = (row.seq, row.seq)
        self.message_total += row.type == "message"
        return found

    def _record(self, row: Row) -> list[str]:
        if row.type == "session_info":
            if "name" in row.fields:
                self.title = row.text("name") or None
            return []
        target_id = row.text("target_id")
        if row.type == "leaf" and row.text("reason") == "drop":
            gone = None if row.head == "main" else self.heads.pop(row.head, None)
            return [] if gone else [f"{row.seq} drops the head {row.head}, which is not there"]
        target = 0 if target_id is None else self.by_id.get(target_id, 0)
        if target == 0 and (target_id is not None or row.type == "label"):
            return [f"{row.seq} is about {target_id}, which is no earlier entry"]
        if row.type == "leaf":
            self.parents[row.seq] = 0 if target_id is None else self.stand(target_id)
            self.heads[row.head] = (self.parents[row.seq], row.seq)
        elif label := row.text("label"):
            self.labels[target] = label
        else:
            self.labels.pop(target, None)
        return []

    # -- what it shows -----------------------------------------------------------------

    def node(self, entry_id: str) -> int:
        """Return the seq of a node of the tree; 0 if there is none."""
        seq = self.by_id.get(entry_id, 0)
        return seq if seq and self.rows[seq - 1].type not in RECORDS else 0

    def stand(self, entry_id: str) -> int:
        """Return the seq of a node, or of a record's place in the tree; 0 for an unknown id."""
        seq = self.by_id.get(entry_id, 0)
        return self.parents[seq] if seq and self.rows[seq - 1].type in RECORDS else seq

    def id_of(self, seq: int) -> str | None:
        return self.rows[seq - 1].id if seq else None

    def leaf_id(self, head: str) -> str | None:
        """Return the leaf's id of an existing head."""
        return self.id_of(self.heads[head][0])

    def staged(self, head: str, known: int) -> Iterator[tuple[str | None, int]]:
        """Yield the leaf's id of a head and the count of lines, as a request may have found them.

        The daemon looks at the file before it stores a request. A foreign line that lands between
        that look and the write stands before the request, which knows nothing of it. `known` is the
        last line that the look has found for certain. A head that is not there stands before the
        first entry.
        """
        foreign = sorted(seq for seq in self._foreign if known < seq <= self.seq)
        for count in range(len(foreign) + 1):
            unseen = foreign[len(foreign) - count :]
            moves = reversed(self.moves.get(head, ()))
            leaf = next((leaf for leaf, seq in moves if seq not in unseen), 0)
            yield self.id_of(leaf), self.seq - count

    def path(self, leaf: int) -> list[int]:
        """Return the path to a leaf, root first."""
        found: list[int] = []
        while leaf:
            found.append(leaf)
            leaf = self.parents[leaf]
        return found[::-1]

    def preorder(self) -> Iterator[int]:
        """Yield the nodes in the order of a tree: the path to main's leaf first, then by time."""
        active = set(self.path(self.heads["main"][0]))
        waiting = self._ordered(0, active)[::-1]
        while waiting:
            seq = waiting.pop()
            yield seq
            waiting += self._ordered(seq, active)[::-1]

    def _ordered(self, parent: int, active: set[int]) -> list[int]:
        def turn(seq: int) -> tuple[bool, bytes, int]:
            return seq not in active, bytes(self.rows[seq - 1].fields.get("timestamp", b"")), seq

        return sorted(self.children[parent], key=turn)

    def context(self, leaf: int) -> list[tuple[str, str]]:
        """Source and digest of every message the model is shown at a leaf."""
        path = self.path(leaf)
        at = next(
            (i for i in reversed(range(len(path))) if self._type(path[i]) == "compaction"), -1
        )
        if at < 0:
            return self._messages(path)
        compaction = self.rows[path[at] - 1]
        after = self._messages(path[at + 1 :])
        if "messages" in compaction.fields:
            said = msgspec.json.decode(compaction.fields["messages"], type=list[Raw])
            return [(compaction.id, digest(message)) for message in said] + after
        kept_id = compaction.text("first_kept_entry_id")
        kept = self.by_id.get(kept_id, 0) if kept_id else 0
        before: list[int] = []
        if kept and (self.node(kept_id) or 0) in path[:at]:
            before = path[path.index(kept) : at]
        elif kept and self.stand(kept_id) == max((0, *(seq for seq in path[:at] if seq < kept))):
            # The record stands at the last entry of the path before its line.
            before = [seq for seq in path[:at] if seq > kept]
        first = (compaction.id, stand_in(compaction))
        return [first, *self._messages(before), *after]

    def _type(self, seq: int) -> str:
        return self.rows[seq - 1].type

    def _messages(self, seqs: list[int]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for seq in seqs:
            row = self.rows[seq - 1]
            if row.type == "message":
                found.append((row.id, digest(row.fields["message"])))
            elif row.type == "custom_message" or (
                row.type == "branch_summary" and row.text("summary")
            ):
                found.append((row.id, stand_in(row)))
        return found


def stand_in(row: Row) -> str:
    """Return the digest of the message that stands for an entry of another type."""
    fields = {name: bytes(raw) for name, raw in row.fields.items() if name not in _ENVELOPE}
    if "role" in row.fields:
        fields["custom_role"] = bytes(row.fields["role"])
    fields["role"] = f'"{_STAND_INS[row.type]}"'.encode()
    return digest_of_fields(fields)


def digest_of_fields(fields: dict[str, bytes]) -> str:
    """Return the digest of an object's members in any order, each as it is spelled."""
    return digest(b",".join(name.encode() + b":" + fields[name] for name in sorted(fields)))
