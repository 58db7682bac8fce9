"""Session files with one fault each: verify's report, the opening, and the result of a repair."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sessiond.limits import NESTING_MAX
from sessiond.model.problems import ProblemKind

__all__ = [
    "FOREIGN",
    "GOOD",
    "HEADER",
    "NATIVE",
    "ONE",
    "OPERATOR",
    "PI",
    "PI_GOOD",
    "PI_HEADER",
    "SHARUR",
    "TIME",
    "Damage",
    "line",
]

TIME = b'"timestamp":"2026-01-15T10:30:00.000Z"'
HEADER = b'{"type":"session_header","version":1,"id":"session-a",%s,"cwd":"/p"}\n' % TIME
PI_HEADER = b'{"type":"session","version":3,"id":"session-a",%s,"cwd":"/p"}\n' % TIME


def line(entry_id: bytes, parent: bytes, more: bytes = b"") -> bytes:
    """Return a message line of a native file."""
    return (
        b'{"type":"message","id":"%s","parent_id":%s,%s,"message":{"role":"user","content":"1.50"}%s}\n'
        % (entry_id, parent, TIME, more)
    )


def pi_line(entry_id: bytes, parent: bytes) -> bytes:
    """Return a message line of a pi file."""
    message = b'{"role":"user","content":"1.50","timestamp":1768473000000}'
    return b'{"type":"message","id":"%s","parentId":%s,%s,"message":%s}\n' % (
        entry_id,
        parent,
        TIME,
        message,
    )


def sharur_line(entry_id: bytes, parent: bytes = b"session-a", more: bytes = b"") -> bytes:
    """Return a message line of a sharur file."""
    message = b'{"role":"user","content":"1.50","timestamp":"0001-01-01T00:00:00Z"}'
    return b'{"type":"message","id":"%s","parentId":"%s",%s,"message":%s%s}\n' % (
        entry_id,
        parent,
        TIME,
        message,
        more,
    )


def operator_line(entry_id: bytes, parent: bytes = b"null", more: bytes = b"") -> bytes:
    """Return a message line of an Operator file."""
    above = b"" if parent == b"null" else b'"parent_id":%s,' % parent
    block = b'{"type":"text","content":"1.50"}'
    message = b'{"contents":[%s],"id":"m","timestamp":1784000000.25,"role":"user"}' % block
    return b'{"id":"%s","timestamp":1784000000.25,%s"type":"message","message":%s%s}\n' % (
        entry_id,
        above,
        message,
        more,
    )


def piglet_line(entry_id: bytes, parent: bytes = b"") -> bytes:
    """Return a message line of a piglet file; "" for no parent."""
    place = b'"id":"%s"' % entry_id + (b',"parentId":"%s"' % parent if parent else b"")
    return b'{"type":"user",%s,"ts":"2026-01-15T10:30:00Z","data":{"content":"1.50"}}\n' % place


def record(kind: bytes, more: bytes, parent: bytes = b"null") -> bytes:
    """Return an entry about the session."""
    return b'{"type":"%s","id":"r1","parent_id":%s,%s,%s}\n' % (kind, parent, TIME, more)


def leaf(parent: bytes, target: bytes) -> bytes:
    """Return the record of a move to an entry."""
    return record(b"leaf", b'"target_id":%s' % target, parent)


def part(number: int, of: int = 3) -> bytes:
    """Return a line of an append with several entries."""
    more = b',"atom":[%d,%d]' % (number, of)
    if number == 1:
        more += b',"atom_of":"session-a"'
    return line(b"a%d-%d" % (of, number), b'"n2"', more)


def copied(number: int, of: int = 3) -> bytes:
    """Return a line of an append with several entries, copied out of another session."""
    return part(number, of).replace(b'"atom_of":"session-a"', b'"atom_of":"session-b"')


def nested(levels: int) -> bytes:
    """Return arrays inside each other."""
    return b"[" * levels + b"]" * levels


ONE = line(b"n1", b"null")
TWO = line(b"n2", b'"n1"')
GOOD = HEADER + ONE + TWO
# What a repair makes of a third entry whose parent is missing.
THREE_BELOW = GOOD + line(b"n3", b'"n2"')
SIDE = b',"head":"side"'
PI_ONE = pi_line(b"00000001", b"null")
PI_GOOD = PI_HEADER + PI_ONE


class Damage(Struct, frozen=True):
    """A file; lines count from 1.

    `opens`: as it is, with its end moved aside, to be read only (for damage or its older version), or
    not at all.
    """

    content: bytes
    problems: list[tuple[int, ProblemKind]] = []
    dropped: list[int] = []
    opens: Literal["whole", "cut", "read_only", "older", "refused"] = "whole"
    repaired: bytes | None = None
    """The file that a repair makes, if that is another one than the file without the lines left out."""

    @property
    def is_repairable(self) -> bool:
        """Return whether a repair changes the file."""
        return bool(self.dropped) or self.repaired is not None


def bad(content: bytes, *lines: int, repaired: bytes | None = None) -> Damage:
    """Return a file with lines that do not parse."""
    problems: list[tuple[int, ProblemKind]] = [(one, "bad_line") for one in lines]
    return Damage(content, problems, list(lines), "read_only", repaired)


def told(
    content: bytes, kind: ProblemKind, at: int = 4, *, repaired: bytes | None = None
) -> Damage:
    """Return a file with a problem that is only reported, and what a repair makes of the file."""
    return Damage(content, [(at, kind)], repaired=repaired)


def refused(content: bytes) -> Damage:
    """Return a file without a usable header."""
    return Damage(content, [(1, "bad_header")], opens="refused")


NATIVE: dict[str, Damage] = {
    "nothing": Damage(GOOD),
    "no newline at the end": Damage(GOOD[:-1]),
    "blank lines": Damage(HEADER + b"\n" + ONE + b"  \n"),
    "windows lines": Damage(GOOD.replace(b"\n", b"\r\n")),
    "times that go back": Damage(GOOD.replace(b"2026-01-15", b"2027-01-15", 2)),
    "no parent_id": Damage(HEADER + ONE.replace(b'"parent_id":null,', b"")),
    # Lines that do not parse.
    "bad lines": bad(HEADER + b"garbage\n" + ONE + b'{"a":1}\n' + TWO, 2, 4),
    "a bad line at the end": bad(GOOD + b"garbage\n", 4),
    "no object": bad(GOOD + b'["message"]\n', 4),
    "no type": bad(GOOD + b'{"id":"n3","parent_id":null}\n', 4),
    "no id": bad(GOOD + b'{"type":"message","message":{"role":"user"}}\n', 4),
    "an empty id and its child": Damage(
        GOOD + line(b"", b'"n2"') + line(b"n4", b'""'),
        [(4, "bad_line"), (5, "orphan")],
        [4],
        "read_only",
        GOOD + line(b"n4", b'"n2"'),
    ),
    "an id that is no text": bad(
        GOOD + b'{"type":"message","id":7,"message":{"role":"user"}}\n', 4
    ),
    "half a line in the middle": bad(HEADER + b'{"type":"mess\n' + ONE, 2),
    "two lines in one": bad(HEADER + ONE[:-1] + TWO, 2, repaired=GOOD),
    "two lines in one, the second one first": bad(HEADER + TWO[:-1] + ONE, 2, repaired=GOOD),
    "a whole entry on a damaged line, before its parent": bad(
        HEADER + b"\0" * 9 + TWO + ONE, 2, repaired=GOOD
    ),
    "zero bytes in a line": bad(GOOD + b"\0" * 512 + b"\n", 4),
    "zero bytes before a line": bad(HEADER + b"\0" * 64 + ONE, 2, repaired=HEADER + ONE),
    "no UTF-8": bad(HEADER + ONE.replace(b"1.50", b"\xff\xfe"), 2),
    "half a character": bad(HEADER + ONE.replace(b"1.50", b"\xc3"), 2),
    "a second header": bad(GOOD + HEADER, 4),
    "a header of pi's in the middle": bad(HEADER + PI_HEADER + ONE, 2),
    # The envelope and the message are two levels of it.
    "nested a level too deeply": bad(HEADER + ONE.replace(b'"1.50"', nested(NESTING_MAX - 1)), 2),
    "nested far too deeply": bad(HEADER + ONE.replace(b'"1.50"', nested(5000)), 2),
    "children of a bad line": Damage(
        HEADER + b"garbage\n" + TWO + line(b"n3", b'"n2"'),
        [(2, "bad_line"), (3, "orphan")],
        [2],
        "read_only",
    ),
    # What a crash leaves at the end.
    "a torn end": Damage(GOOD + b'{"type":"mess', [(4, "torn_tail")], [4], "cut"),
    "a torn end in a character": Damage(
        GOOD + '{"type":"é'.encode()[:-1], [(4, "torn_tail")], [4], "cut"
    ),
    "zero bytes at the end": Damage(GOOD + b"\0" * 4096, [(4, "torn_tail")], [4], "cut"),
    "half an append": Damage(GOOD + part(1) + part(2), [(4, "incomplete_atom")], [4, 5], "cut"),
    "half an append and a torn end": Damage(
        GOOD + part(1) + b"{", [(5, "torn_tail"), (4, "incomplete_atom")], [4, 5], "cut"
    ),
    # What another program copied here is not known to be the end of nothing.
    "half an append of another session": told(GOOD + copied(1) + copied(2), "broken_atom"),
    "half an append of another session behind one of ours": Damage(
        GOOD + part(1) + copied(1, 2), [(4, "broken_atom"), (5, "broken_atom")]
    ),
    "half an append of ours behind one of another session": Damage(
        GOOD + copied(1, 2) + part(1), [(5, "incomplete_atom")], [5], "cut"
    ),
    "half an append that does not say whose it is": told(
        GOOD + line(b"n3", b'"n2"', b',"atom":[1,2]'), "broken_atom"
    ),
    "half an append without its newline": Damage(
        GOOD + part(1)[:-1], [(4, "incomplete_atom")], [4], "cut"
    ),
    "a bad line and a torn end": Damage(
        HEADER + b"x\n" + ONE + b"{", [(2, "bad_line"), (4, "torn_tail")], [2, 4], "read_only"
    ),
    # Without its bad line the append would be one that never was.
    "half an append and a bad line": Damage(
        GOOD + part(1) + b"x\n", [(5, "bad_line"), (4, "incomplete_atom")], [4, 5], "read_only"
    ),
    "a bad line in half an append": Damage(
        GOOD + part(1) + b"x\n" + part(2),
        [(5, "bad_line"), (4, "incomplete_atom")],
        [4, 5, 6],
        "read_only",
    ),
    # What is found on a damaged line counts.
    "an append with its end on a damaged line": Damage(
        GOOD + part(1) + part(2) + part(3)[:-1] + b"\0" * 9 + b"\n",
        [(6, "bad_line"), (4, "incomplete_atom")],
        [6],
        "read_only",
        GOOD + part(1) + part(2) + part(3),
    ),
    "half an append with its end on a damaged line": Damage(
        GOOD + part(1) + b"x" + part(2),
        [(5, "bad_line"), (4, "incomplete_atom")],
        [4, 5],
        "read_only",
    ),
    # Appends that are not whole where no crash leaves them.
    "half an append in the middle": told(GOOD + part(1) + line(b"n3", b'"n2"'), "broken_atom"),
    "half an append before another": told(GOOD + part(1) + part(1, 2) + part(2, 2), "broken_atom"),
    "an append without its beginning": told(GOOD + part(2) + part(3), "broken_atom"),
    "an append with a gap": told(GOOD + part(1) + part(3), "broken_atom"),
    "a bad line in an append": Damage(
        GOOD + part(1) + b"x\n" + part(3), [(5, "bad_line"), (4, "broken_atom")], [5], "read_only"
    ),
    "numbers of an append that mean nothing": Damage(GOOD + part(7, 3) + part(0, 3)),
    # What refers to something that is not there.
    "an orphan": told(GOOD + line(b"n3", b'"nowhere"'), "orphan", repaired=THREE_BELOW),
    "a parent that comes later": told(HEADER + TWO + ONE, "orphan", 2, repaired=GOOD),
    "an orphan that goes on at an entry that gets another place": Damage(
        HEADER + line(b"n3", b'"n1"') + line(b"n4", b'"nowhere"') + ONE,
        [(2, "orphan"), (3, "orphan")],
        repaired=HEADER + ONE + line(b"n3", b'"n1"') + line(b"n4", b'"n3"'),
    ),
    # The leaf leads to itself, so it leads to its parent: the orphan goes on there.
    "an orphan behind a leaf that is its own parent and target": Damage(
        GOOD + leaf(b'"r1"', b'"r1"') + line(b"n3", b'"nowhere"'),
        [(4, "orphan"), (5, "orphan")],
        repaired=GOOD + leaf(b'"n2"', b'"r1"') + line(b"n3", b'"n2"'),
    ),
    "an orphan that goes behind its target, where its head has nothing before it": Damage(
        HEADER
        + line(b"n3", b'"n1"', SIDE)
        + record(b"label", b'"target_id":"n3","label":"y"', b'"nowhere"')
        + ONE,
        [(2, "orphan"), (3, "orphan")],
        repaired=HEADER
        + ONE
        + line(b"n3", b'"n1"', SIDE)
        + record(b"label", b'"target_id":"n3","label":"y"', b'"n1"'),
    ),
    "a circle that goes through another head": Damage(
        HEADER
        + line(b"n0", b"null", SIDE)
        + line(b"n1", b'"n2"')
        + line(b"n2", b'"n3"', SIDE)
        + line(b"n3", b'"n1"'),
        [(3, "orphan"), (4, "orphan")],
        repaired=HEADER
        + line(b"n0", b"null", SIDE)
        + line(b"n2", b'"n0"', SIDE)
        + line(b"n1", b'"n2"')
        + line(b"n3", b'"n1"'),
    ),
    "an entry before a circle that has its parent": Damage(
        GOOD + line(b"n5", b'"n4"') + line(b"n3", b'"n4"') + line(b"n4", b'"n3"'),
        [(4, "orphan"), (5, "orphan")],
        repaired=THREE_BELOW + line(b"n4", b'"n3"') + line(b"n5", b'"n4"'),
    ),
    "a circle": told(HEADER + line(b"n1", b'"n2"') + TWO, "orphan", 2),
    "its own parent": told(GOOD + line(b"n3", b'"n3"'), "orphan", repaired=THREE_BELOW),
    "a parent that is no text": told(GOOD + line(b"n3", b"7"), "orphan", repaired=THREE_BELOW),
    # Other programs do that, and it is resolved.
    "a record as parent": Damage(
        GOOD + record(b"label", b'"target_id":"n1","label":"y"') + line(b"n3", b'"r1"')
    ),
    "the same id twice": told(GOOD + ONE, "duplicate_id"),
    "the same id twice in one chain": told(GOOD + line(b"n1", b'"n2"'), "duplicate_id"),
    "a label of nothing": told(
        GOOD + record(b"label", b'"target_id":"x","label":"y"'), "unknown_target"
    ),
    "a leaf that leads nowhere": told(GOOD + record(b"leaf", b'"target_id":"x"'), "unknown_target"),
    "a leaf on a record": Damage(
        GOOD
        + record(b"label", b'"target_id":"n1","label":"y"')
        + record(b"leaf", b'"target_id":"r1"').replace(b'"id":"r1"', b'"id":"r2"')
    ),
    "a drop of a head that is not there": told(
        GOOD + record(b"leaf", b'"target_id":null,"head":"side","reason":"drop"'), "unknown_target"
    ),
    "a compaction that keeps nothing": told(
        GOOD
        + b'{"type":"compaction","id":"c1","parent_id":"n1",%s,"summary":"s","first_kept_entry_id":"n2","tokens_before":1}\n'
        % TIME,
        "first_kept_off_path",
    ),
    "a decision without a text": told(
        GOOD
        + b'{"type":"custom","id":"d1","parent_id":"n1",%s,"custom_type":"sessiond.decision","data":{"decision":5}}\n'
        % TIME,
        "bad_state",
    ),
    # What is odd.
    "no time": told(GOOD + line(b"n3", b'"n2"').replace(TIME + b",", b""), "bad_time"),
    "a time that is none": told(
        GOOD + line(b"n3", b'"n2"').replace(b"2026-01-15T10:30:00.000Z", b"yesterday"), "bad_time"
    ),
    "a line of pi's": told(GOOD + pi_line(b"n3", b'"n2"'), "other_spelling"),
    "the header of another session": told(
        GOOD.replace(b'"session-a"', b'"session-b"'), "other_id", 1
    ),
    # No header, no session.
    "empty": refused(b""),
    "only a newline": refused(b"\n"),
    "a blank line first": refused(b"\n" + GOOD),
    "no header": refused(ONE + TWO),
    "garbage for a header": refused(b"garbage\n" + GOOD),
    "half a header": refused(HEADER[:-20]),
    "zero bytes for a header": refused(b"\0" * 100 + b"\n" + ONE),
    "a byte order mark": refused(b"\xef\xbb\xbf" + GOOD),
    "a header of a newer version": refused(GOOD.replace(b'"version":1', b'"version":2')),
    "a version that is no number": refused(GOOD.replace(b'"version":1', b'"version":"new"')),
    "a header without an id": refused(GOOD.replace(b'"id":"session-a",', b"", 1)),
    "a header that is not UTF-8": refused(GOOD.replace(b'"/p"', b'"\xff"')),
}

PI: dict[str, Damage] = {
    "nothing": Damage(PI_GOOD),
    "windows lines": Damage(PI_GOOD.replace(b"\n", b"\r\n")),
    "garbage": told(PI_GOOD + b"garbage\n", "bad_line", 3),
    "a second header": told(PI_GOOD + PI_HEADER, "bad_line", 3),
    "zero bytes": told(PI_GOOD + b"\0" * 64 + b"\n", "bad_line", 3),
    "no UTF-8": told(
        PI_GOOD + PI_ONE.replace(b"1.50", b"\xff").replace(b"001", b"002"), "bad_line", 3
    ),
    "half a line at the end": told(PI_GOOD + b'{"type":"mess', "torn_tail", 3),
    "no newline at the end": Damage(PI_GOOD[:-1]),
    "an empty id": told(PI_GOOD + pi_line(b"", b'"00000001"'), "bad_line", 3),
    "an orphan": told(PI_GOOD + pi_line(b"00000002", b'"nowhere"'), "orphan", 3),
    "its own parent": told(PI_GOOD + pi_line(b"00000002", b'"00000002"'), "orphan", 3),
    "the same id twice": told(PI_GOOD + PI_ONE, "duplicate_id", 3),
    "the same id twice in one chain": told(
        PI_GOOD + pi_line(b"00000001", b'"00000001"'), "duplicate_id", 3
    ),
    "a native line": told(PI_GOOD + ONE, "other_spelling", 3),
    "a time that is none": told(
        PI_GOOD + pi_line(b"00000002", b"null").replace(b"2026-01-15T10:30:00.000Z", b"now"),
        "bad_time",
        3,
    ),
    "the header of another session": told(
        PI_GOOD.replace(b'"session-a"', b'"session-b"'), "other_id", 1
    ),
    "a newer version": refused(PI_GOOD.replace(b'"version":3', b'"version":4')),
    "an older version": Damage(PI_GOOD.replace(b'"version":3', b'"version":2'), opens="older"),
}

OPERATOR_HEADER = (
    b'{"type":"session","version":3,"id":"session-a","timestamp":1784000000.25,"cwd":"/p"}\n'
)
OPERATOR_ONE = operator_line(b"00000001")
OPERATOR_GOOD = OPERATOR_HEADER + OPERATOR_ONE
OPERATORS_LIST = (
    b'{"type":"metadata","id":"session-a","created_at":"2026-01-15T10:30:00"}\n'
    b'{"role":"user","content":"1.50"}\n'
)

OPERATOR: dict[str, Damage] = {
    "nothing": Damage(OPERATOR_GOOD),
    "windows lines": Damage(OPERATOR_GOOD.replace(b"\n", b"\r\n")),
    "the documented header": Damage(OPERATOR_GOOD.replace(b'"session"', b'"session_header"')),
    "a parent that is null": Damage(OPERATOR_GOOD + operator_line(b"00000002", b" null")),
    "garbage": told(OPERATOR_GOOD + b"garbage\n", "bad_line", 3),
    "a second header": told(OPERATOR_GOOD + OPERATOR_HEADER, "bad_line", 3),
    "an entry before the header": refused(OPERATOR_ONE + OPERATOR_HEADER),
    "zero bytes": told(OPERATOR_GOOD + b"\0" * 64 + b"\n", "bad_line", 3),
    "no UTF-8": told(OPERATOR_GOOD + OPERATOR_ONE.replace(b"1.50", b"\xff"), "bad_line", 3),
    "half a line at the end": told(OPERATOR_GOOD + b'{"id":"mess', "torn_tail", 3),
    "no newline at the end": Damage(OPERATOR_GOOD[:-1]),
    "no id": told(OPERATOR_GOOD + OPERATOR_ONE.replace(b'"id":"00000001",', b""), "bad_line", 3),
    "an empty id and its child": Damage(
        OPERATOR_GOOD + operator_line(b"", b'"00000001"') + operator_line(b"00000002", b'""'),
        [(3, "bad_line"), (4, "orphan")],
    ),
    "no type": told(OPERATOR_GOOD + OPERATOR_ONE.replace(b'"type":"message",', b""), "bad_line", 3),
    "a line of 1 MB": Damage(
        OPERATOR_GOOD + operator_line(b"00000002").replace(b"1.50", b"x" * 10**6)
    ),
    "an id that is a path": Damage(OPERATOR_GOOD + operator_line(b"../../x", b'"00000001"')),
    "an orphan": told(OPERATOR_GOOD + operator_line(b"00000002", b'"nowhere"'), "orphan", 3),
    "its own parent": told(OPERATOR_GOOD + operator_line(b"00000002", b'"00000002"'), "orphan", 3),
    "a circle": told(
        OPERATOR_HEADER
        + operator_line(b"00000001", b'"00000002"')
        + operator_line(b"00000002", b'"00000001"'),
        "orphan",
        2,
    ),
    "a parent that is no text": told(OPERATOR_GOOD + operator_line(b"00000002", b"7"), "orphan", 3),
    "the same id twice": told(OPERATOR_GOOD + OPERATOR_ONE, "duplicate_id", 3),
    "a line of pi's": told(
        OPERATOR_GOOD + pi_line(b"00000002", b'"00000001"'), "other_spelling", 3
    ),
    "a native line": Damage(OPERATOR_GOOD + ONE),
    "native marks of an append": Damage(
        OPERATOR_GOOD + operator_line(b"00000002", b'"00000001"', b',"atom":[1,3],"head":"side"')
    ),
    "a time that is none": told(
        OPERATOR_GOOD + operator_line(b"00000002").replace(b"1784000000.25", b'"now"', 1),
        "bad_time",
        3,
    ),
    "a time of no year": told(
        OPERATOR_GOOD + operator_line(b"00000002").replace(b"1784000000.25", b"1e300", 1),
        "bad_time",
        3,
    ),
    "a leaf that leads nowhere": told(
        OPERATOR_GOOD + b'{"id":"l1","timestamp":1.5,"type":"leaf","target_id":"x"}\n',
        "unknown_target",
        3,
    ),
    "a label of nothing": told(
        OPERATOR_GOOD + b'{"id":"l1","timestamp":1.5,"type":"label","target_id":"x"}\n',
        "unknown_target",
        3,
    ),
    "a compaction that keeps nothing": told(
        OPERATOR_GOOD
        + b'{"id":"c1","timestamp":1.5,"parent_id":"00000001","type":"compaction","summary":"S",'
        b'"first_kept_entry_id":"x"}\n',
        "first_kept_off_path",
        3,
    ),
    "the header of another session": told(
        OPERATOR_GOOD.replace(b'"session-a"', b'"session-b"'), "other_id", 1
    ),
    "a newer version": refused(OPERATOR_GOOD.replace(b'"version":3', b'"version":4')),
    "a header without an id": refused(OPERATOR_GOOD.replace(b'"id":"session-a",', b"")),
    "an older version": Damage(OPERATORS_LIST, opens="older"),
}

SHARUR_HEADER = b'{"type":"session","id":"session-a",%s,"version":3}\n' % TIME
SHARUR_GOOD = SHARUR_HEADER + sharur_line(b"00000001")

SHARUR: dict[str, Damage] = {
    "nothing": Damage(SHARUR_GOOD),
    "windows lines": Damage(SHARUR_GOOD.replace(b"\n", b"\r\n")),
    "garbage": told(SHARUR_GOOD + b"garbage\n", "bad_line", 3),
    "zero bytes": told(SHARUR_GOOD + b"\0" * 64 + b"\n", "bad_line", 3),
    "no UTF-8": told(SHARUR_GOOD + sharur_line(b"2", more=b',"x":"\xff"'), "bad_line", 3),
    "half a line at the end": told(SHARUR_GOOD + b'{"type":"mess', "torn_tail", 3),
    "no newline at the end": Damage(SHARUR_GOOD[:-1]),
    # sharur's own branches have the header of their source as a second one.
    "the header of another session inside": Damage(
        SHARUR_GOOD + SHARUR_HEADER.replace(b"-a", b"-b") + sharur_line(b"2", b"session-b")
    ),
    "its own header twice": Damage(SHARUR_GOOD + SHARUR_HEADER + sharur_line(b"2")),
    "an entry without an id": told(
        SHARUR_GOOD + sharur_line(b"2").replace(b'"id":"2",', b""), "bad_line", 3
    ),
    "an empty id": told(SHARUR_GOOD + sharur_line(b"", b"00000001"), "bad_line", 3),
    "an orphan": told(SHARUR_GOOD + sharur_line(b"2", b"nowhere"), "orphan", 3),
    "a circle": told(
        SHARUR_HEADER + sharur_line(b"1", b"2") + sharur_line(b"2", b"1"), "orphan", 2
    ),
    "its own parent": told(SHARUR_GOOD + sharur_line(b"2", b"2"), "orphan", 3),
    "the same id twice": told(SHARUR_GOOD + sharur_line(b"00000001"), "duplicate_id", 3),
    "an id that is a path": Damage(SHARUR_GOOD + sharur_line(b"../../x", b"00000001")),
    "a native line": told(SHARUR_GOOD + ONE, "other_spelling", 3),
    "a line of pi's": Damage(SHARUR_GOOD + pi_line(b"00000002", b'"00000001"')),
    "a time that is none": told(
        SHARUR_GOOD + sharur_line(b"2").replace(b"2026-01-15T10:30:00.000Z", b"now"), "bad_time", 3
    ),
    "a compaction that keeps what is not there": told(
        SHARUR_GOOD
        + sharur_line(b"2", more=b',"summary":"s","firstKeptEntryId":"x"').replace(
            b"message", b"compaction", 1
        ),
        "first_kept_off_path",
        3,
    ),
    "the header of another session": told(
        SHARUR_GOOD.replace(b'"id":"session-a"', b'"id":"session-b"').replace(
            b'"parentId":"session-a"', b'"parentId":"session-b"'
        ),
        "other_id",
        1,
    ),
    "entries before the header": refused(sharur_line(b"1") + SHARUR_GOOD),
    "half a header": refused(SHARUR_HEADER[:-20]),
    "a newer version": refused(SHARUR_GOOD.replace(b'"version":3', b'"version":4')),
    "an export": Damage(SHARUR_GOOD.replace(b'"id":"00000001",', b""), opens="older"),
    "an export with garbage": Damage(
        SHARUR_HEADER + b"garbage\n" + sharur_line(b"1").replace(b'"id":"1",', b""),
        [(2, "bad_line")],
        opens="older",
    ),
    "a file from before the tree": Damage(
        b'{"kind":"header","id":"session-a","createdAt":1776928014000}\n'
        b'{"kind":"message","role":"user","content":"hi","raw":{"role":"user","content":"hi"}}\n',
    ),
}

PIGLET_HEADER = (
    b'{"type":"meta","ts":"2026-01-15T10:30:00Z","data":{"id":"session-a","cwd":"/p",'
    b'"createdAt":"2026-01-15T10:30:00Z"}}\n'
)
PIGLET_GOOD = PIGLET_HEADER + piglet_line(b"00000001")

PIGLET: dict[str, Damage] = {
    "nothing": Damage(PIGLET_GOOD),
    "windows lines": Damage(PIGLET_GOOD.replace(b"\n", b"\r\n")),
    "garbage": told(PIGLET_GOOD + b"garbage\n", "bad_line", 3),
    "a second header": Damage(PIGLET_GOOD + PIGLET_HEADER),
    "a meta line without data": told(PIGLET_GOOD + b'{"type":"meta"}\n', "bad_line", 3),
    "an entry before the header": refused(piglet_line(b"00000001") + PIGLET_HEADER),
    "zero bytes": told(PIGLET_GOOD + b"\0" * 64 + b"\n", "bad_line", 3),
    "no UTF-8": told(
        PIGLET_GOOD + piglet_line(b"00000002").replace(b"1.50", b"\xff"), "bad_line", 3
    ),
    "half a line at the end": told(PIGLET_GOOD + b'{"type":"us', "torn_tail", 3),
    "half a line in the middle": told(
        PIGLET_GOOD + b'{"type":"us\n' + piglet_line(b"00000002", b"00000001"), "bad_line", 3
    ),
    "no newline at the end": Damage(PIGLET_GOOD[:-1]),
    "an orphan": told(PIGLET_GOOD + piglet_line(b"00000002", b"nowhere"), "orphan", 3),
    "its own parent": told(PIGLET_GOOD + piglet_line(b"00000002", b"00000002"), "orphan", 3),
    "a circle": told(
        PIGLET_GOOD + piglet_line(b"02", b"03") + piglet_line(b"03", b"02"), "orphan", 3
    ),
    "the same id twice": told(PIGLET_GOOD + piglet_line(b"00000001"), "duplicate_id", 3),
    "an id that is a path": Damage(PIGLET_GOOD + piglet_line(b"../../x", b"00000001")),
    "a line of a megabyte": Damage(
        PIGLET_GOOD + piglet_line(b"00000002").replace(b"1.50", b"x" * (1 << 20))
    ),
    "a line of pi's": told(PIGLET_GOOD + pi_line(b"00000002", b'"00000001"'), "bad_time", 3),
    "a time that is none": told(
        PIGLET_GOOD + piglet_line(b"00000002").replace(b"2026-01-15T10:30:00Z", b"now"),
        "bad_line",
        3,
    ),
    "the header of another session": told(
        PIGLET_GOOD.replace(b'"session-a"', b'"session-b"'), "other_id", 1
    ),
    "a header without an id": refused(PIGLET_GOOD.replace(b'"id":"session-a",', b"", 1)),
    "an older version": Damage(PIGLET_GOOD.replace(b'"id":"00000001",', b"")),
}

FOREIGN: dict[str, dict[str, Damage]] = {
    "pi": PI,
    "operator": OPERATOR,
    "piglet": PIGLET,
    "sharur": SHARUR,
}
"""The files of each other program."""
