"""Files with any problems in any order: one repair is enough and keeps every good line."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal.disk.files import Files
from sessiond.service.files.checking.repairing import plan_repair, write_repaired
from sessiond.service.files.checking.verifying import verify_file
from sessiond.service.files.crash_recovery import open_unchanged
from sessiond.service.log.indexer import Indexer
from sessiond.service.store.checks import Repair
from sessiond.testing.disk import FaultDisk
from tests.kit.lines import atom_line, line_of
from tests.kit.repairs import repair_faults
from tests.kit.sessions import TIME
from tests.kit.wounds import WOUNDS, Wound

HEADER = b'{"type":"session_header","version":1,"id":"session-a","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}\n'
PATH = Path("/sessions/s.jsonl")
LOCKS = Path("/locks")


GOOD = st.tuples(
    st.integers(0, 9).map("n{}".format),
    st.none() | st.sampled_from([(1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 1), (4, 3)]),
    st.sampled_from(["session-a", "session-b"]),
).map(lambda drawn: atom_line(*drawn))
BAD = st.sampled_from(
    [b"garbage", b"{}", b"\0" * 9, b'{"type":"mess', b'{"type":"mess ', HEADER[:-1], b"\xff"]
)
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


def linked(
    kind: str, entry_id: str, parent: str | None, target: str, more: dict[str, Any]
) -> bytes:
    """Return the line of an entry that refers to others, which need not be there."""
    said: dict[str, dict[str, Any]] = {
        "message": {"message": {"role": "user"}},
        "leaf": {"target_id": target},
        "label": {"target_id": target, "label": "x"},
        "compaction": {"summary": "s", "first_kept_entry_id": target, "tokens_before": 1},
    }
    return line_of(type=kind, id=entry_id, parent_id=parent, timestamp=TIME, **said[kind], **more)


NAMES = st.sampled_from("abcdef")
LINKED = st.builds(
    linked,
    st.sampled_from(["message", "message", "message", "leaf", "label", "compaction"]),
    NAMES,
    st.none() | NAMES,
    NAMES,
    st.sampled_from([
        *({}, {}, {}, {"head": "side"}, {"head": "side"}, {"atom": (2, 3)}),
        *({"atom": (1, 2), "atom_of": "session-a"}, {"atom": (2, 2)}, {"atom": (1, 2)}),
    ]),
)  # fmt: skip
# Zeros or nothing before each of some entries.
DAMAGED = st.lists(st.tuples(st.sampled_from([b"", b"\0"]), LINKED), min_size=2, max_size=3).map(
    lambda drawn: b"".join(before + line for before, line in drawn)
)
ANY = st.lists(st.one_of(LINKED, LINKED, LINKED, DAMAGED, BAD, st.just(b"")), max_size=8)


@given(lines=ANY)
def test_a_second_repair_has_nothing_to_do(lines: list[bytes]) -> None:
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, lines)
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    found = verify_file(disk, PATH)
    assert (found.repairable, found.read_only, plan_repair(disk, PATH).moved) == (False, False, 0)
    whole = [line for line in lines if line.startswith(b'{"id"') and line.count(b'{"id"') == 1]
    assert [*repair_faults(whole, list(filter(None, made)), plan.moved)] == []
    assert plan.reason is not None or plan.kept + plan.recovered == len(made) + 1


def test_half_an_append_before_half_a_line_that_was_closed_goes_in_one_repair() -> None:
    half = atom_line("n1", (1, 2), "session-a")
    plan, made = repaired(FaultDisk(PATH.parent, LOCKS), [told(0), half, b'{"type":"mess '])
    assert (plan.dropped_lines, made) == ([3, 4], [told(0)])


def test_half_an_append_that_an_entry_goes_behind_stays() -> None:
    below, half = told(1, parent_id="n5"), told(5, parent_id="n0", atom=(1, 2), atom_of="session-a")
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, [told(0), below, half])
    assert (plan.moved, made) == (1, [told(0), half, below])
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert not verify_file(disk, PATH).repairable


def test_the_damaged_lines_of_a_file_are_not_held(tmp_path: Path) -> None:
    whole = atom_line("n1", None, "session-a")
    # An object without the form of an entry, and a copy of an entry: neither can be recovered.
    damaged = b'{"a":"' + b"x" * 1_000_000 + b'"}' + whole + b"{\n"
    path = tmp_path / PATH.name
    path.write_bytes(HEADER + whole + b"\n" + damaged * 40)
    tracemalloc.start()
    try:
        plan = plan_repair(Files(), path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (plan.dropped, plan.recovered) == (40, 0)
    assert peak < 8_000_000, f"{peak} bytes"


# Wounds that leave no whole entry on a damaged line.
ASIDE = {"dropped", "swapped", "cut", "headless", "hole"}


def told(number: int, **more: object) -> bytes:
    """Return a line of a native file, a second later than the one before."""
    message = {"role": "user", "content": f'said {number} {{"a": [1, 2.5]}} é'}
    entry = {
        "type": "message",
        "id": f"n{number}",
        "parent_id": f"n{number - 1}" if number else None,
        "timestamp": f"2026-01-15T10:30:{number:02}.000Z",
        "message": message,
        "blocks": [{"n": None}, []],
        **more,
    }
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()


def repaired(disk: FaultDisk, lines: list[bytes]) -> tuple[Repair, list[bytes]]:
    """Return what a repair of a file does, and the lines of the new file."""
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in lines))
    plan = plan_repair(disk, PATH)
    fd = disk.open_update(PATH)
    written = write_repaired(disk, PATH, fd)
    disk.close(fd)
    assert (written.plan.recovered, written.plan.kept) == (plan.recovered, plan.kept)
    made = (
        lines if written.unfinished is None else disk.content(written.unfinished).splitlines()[1:]
    )
    return plan, made


def chained(whole: list[bytes]) -> list[bytes]:
    """Return the entries that are left of a chain, each below the one before."""
    found: list[bytes] = []
    for line in whole:
        entry = json.loads(line)
        if found:
            entry["parent_id"] = json.loads(found[-1])["id"]
        found.append(json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode())
    return found


@pytest.mark.parametrize("wound", WOUNDS.values(), ids=WOUNDS)
def test_a_repair_loses_no_whole_entry_and_makes_the_chain_whole(wound: Wound) -> None:
    chance = random.Random(wound.__name__)
    lines = [told(number) for number in range(9)]
    for _ in range(60):
        damaged, whole = wound(lines, chance.randrange(1, len(lines) - 1), chance)
        disk = FaultDisk(PATH.parent, LOCKS)
        plan, made = repaired(disk, damaged)
        assert made == chained(whole)
        assert (plan.recovered > 0) is (wound.__name__ not in ASIDE)
        disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
        assert verify_file(disk, PATH).ok


def test_entries_below_one_that_goes_behind_its_parent_go_with_it() -> None:
    first, second, third, fourth, fifth = (told(number) for number in range(5))
    plan, made = repaired(FaultDisk(PATH.parent, LOCKS), [first, third, fourth, second, fifth])
    assert (plan.moved, made) == (2, [first, second, third, fourth, fifth])


def test_an_entry_that_waits_for_one_that_waits_itself_goes_behind_it() -> None:
    lines = [told(number) for number in range(7)]
    other = told(9, parent_id="n4")
    wounded = [lines[0], other, lines[2], lines[3], lines[4], lines[5], lines[1], lines[6]]
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, wounded)
    assert made == [*lines[:5], other, lines[5], lines[6]]
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert verify_file(disk, PATH).ok
    assert plan.moved == 5


def test_an_entry_on_a_damaged_line_goes_behind_a_parent_that_goes_behind_its_own() -> None:
    first, parent, late = told(0), told(1), told(2)
    glued, other, below = told(3), told(7, parent_id="n0"), told(8, parent_id="n7")
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, [first, late, glued + other, below, parent])
    # The other entry of the line, and what is below it, wait for nothing.
    assert (plan.recovered, made) == (2, [first, other, below, parent, late, glued])
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert verify_file(disk, PATH).ok


@pytest.mark.parametrize("above", ["n0", "n1"])
def test_an_entry_that_names_itself_stays_before_another_one_of_its_id(above: str) -> None:
    itself, twin = told(1, parent_id="n1"), told(1, parent_id=above)
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, [told(0), itself, told(2, parent_id="n0"), twin])
    assert (plan.moved, plan.reparented) == (0, 1)
    assert made == [told(0), told(1, parent_id="n0"), told(2, parent_id="n0"), twin]
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert not verify_file(disk, PATH).repairable


def test_a_circle_of_three_is_cut_once() -> None:
    circle = [told(1, parent_id="n2"), told(2, parent_id="n3"), told(3, parent_id="n1")]
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, [told(0), *circle, told(4)])
    assert (plan.moved, len(made)) == (0, 5)
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert verify_file(disk, PATH).ok


def test_entries_that_are_parents_of_each_other_stay_in_their_order() -> None:
    one, other = told(1, parent_id="n2"), told(2)
    disk = FaultDisk(PATH.parent, LOCKS)
    plan, made = repaired(disk, [told(0), one, other])
    assert (plan.moved, made) == (0, [told(0), told(1), other])
    disk.put(PATH, HEADER + b"".join(line + b"\n" for line in made))
    assert verify_file(disk, PATH).ok


def test_a_head_goes_on_at_its_own_entry() -> None:
    aside = told(5, parent_id="n0", head="aside")
    below = told(7, parent_id="lost", head="aside")
    _, made = repaired(FaultDisk(PATH.parent, LOCKS), [told(0), told(1), aside, told(2), below])
    assert json.loads(made[-1])["parent_id"] == "n5"


def test_what_an_entry_quotes_is_not_taken_by_a_repair() -> None:
    first, last = told(0), told(2)
    old = json.loads(told(1)) | {"timestamp": "2026-01-15T10:29:00.000Z", "id": "quoted"}
    for quoted in (json.loads(first), old):
        line = told(1, found=[quoted], more=quoted)
        for end in range(1, len(line)):
            for wounded in ([line[:end]], [line[end:]], [line[:end] + last], [line[end:] + last]):
                _, made = repaired(FaultDisk(PATH.parent, LOCKS), [first, *wounded])
                assert made in ([first], chained([first, last]), [first, *wounded])


@pytest.mark.parametrize(("seconds", "is_ours"), [(0.5, False), (1.5, True)])
def test_half_a_line_from_before_the_start_of_the_machine_is_sessionds_own(
    seconds: float, is_ours: bool
) -> None:
    disk = FaultDisk(PATH.parent, LOCKS)
    disk.seconds = 1000.0
    disk.put(PATH, HEADER + told(0) + b"\n" + told(1)[:-30])
    disk.set_time(PATH, disk.seconds)
    # A machine sets its clock to whole seconds: what was written less than one before may be younger.
    disk.booted = disk.seconds + seconds
    indexer = Indexer(PATH, in_place=True)
    journal = open_unchanged(disk, indexer, locks=LOCKS, stamp=lambda: "now")
    # What is sessiond's own is cut before the next line; another program may go on with its half line.
    assert (journal.torn_bytes > 0) is is_ours
    journal.close()
