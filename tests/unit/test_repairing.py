"""Files with any problems in any order: one repair is enough and keeps every good line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sessiond.service.files.checking.repairing import plan_repair, write_repaired
from sessiond.service.files.checking.verifying import verify_file
from sessiond.service.files.crash_recovery import open_unchanged
from sessiond.service.log.indexer import Indexer
from sessiond.testing.disk import FaultDisk
from tests.kit.lines import atom_line

HEADER = b'{"type":"session_header","version":1,"id":"session-a","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}\n'
PATH = Path("/sessions/s.jsonl")
LOCKS = Path("/locks")


GOOD = st.tuples(
    st.integers(0, 9).map("n{}".format),
    st.none() | st.sampled_from([(1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 1), (4, 3)]),
    st.sampled_from(["session-a", "session-b"]),
).map(lambda drawn: atom_line(*drawn))
BAD = st.sampled_from([b"garbage", b"{}", b"\0" * 9, b'{"type":"mess', HEADER[:-1], b"\xff"])
BLANK = st.sampled_from([b"", b"  ", b"\r"])
LINES = st.lists(st.one_of(GOOD, GOOD, BAD, BLANK), max_size=8)
TAIL = st.one_of(st.just(b""), GOOD, BAD, GOOD.map(lambda line: line[:-3]))


@given(lines=LINES, tail=TAIL)
def test_one_repair_is_enough(lines: list[bytes], tail: bytes) -> None:
    disk = FaultDisk(PATH.parent, LOCKS)
    content = HEADER + b"".join(line + b"\n" for line in lines) + tail
    disk.put(PATH, content)
    plan = plan_repair(disk, PATH)
    assert (plan.reason is None) is verify_file(disk, PATH).repairable
    fd = disk.open_update(PATH)
    written = write_repaired(disk, PATH, fd)
    done, young = written.plan, written.unfinished
    disk.close(fd)
    assert (done.kept, done.dropped_lines) == (plan.kept, plan.dropped_lines)
    if plan.reason is not None:
        assert young is None
        assert disk.paths == [PATH]
        return

    assert young is not None
    kept = disk.content(young)
    whole = [HEADER[:-1], *lines, *([tail] if tail else [])]
    expected = [line for at, line in enumerate(whole, 1) if at not in plan.dropped_lines]
    assert kept == b"".join(line + b"\n" for line in expected)
    found = verify_file(disk, young)
    assert (found.repairable, found.read_only, found.lines) == (False, False, plan.kept)
    assert plan_repair(disk, young).dropped == 0
    # An opening agrees: there is nothing to cut.
    indexer = Indexer(young, in_place=True)
    journal = open_unchanged(disk, indexer, locks=LOCKS, stamp=lambda: "now")
    journal.close()
    assert (indexer.session.read_only_line, disk.content(young)) == (None, kept)
    # Every dropped line is no entry, or belongs to an append that never was whole.
    for at in plan.dropped_lines:
        line = whole[at - 1]
        parses = line.startswith(b'{"type":"message"') and line.endswith(b"}")
        assert line not in lines or b'"atom"' in line or not parses
