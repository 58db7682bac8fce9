"""The life of a journal, played by hypothesis: appends, faults, repairs, moves, crashes.

The model is small: every acknowledged line is found, in order, at its ordinal, and no line is
invented. Part of a refused batch may be found after a crash, and only then.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessiond.errors import StorageError
from sessiond.journal.journal import Journal
from sessiond.journal.store import Overtaken
from sessiond.testing.disk import FaultDisk

PLACES = (Path("/pending/s.jsonl"), Path("/sessions/s.jsonl"))
LOCKS = Path("/locks")
HEADER = b'{"header":1}'
# The failing call, its number counted from now (most calls happen once or twice), and how many of
# its bytes get through.
FAULT = st.tuples(
    st.sampled_from(["write", "fdatasync", "open_append", "truncate", "pwrite", None]),
    st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 6]),
    st.integers(0, 40),
)
FAULTS = st.lists(FAULT, max_size=2)
# Half a line of ours does not match, whatever a foreign writer adds to it.
OURS = re.compile(rb'\["n",\d+\]')
Fault = tuple[str | None, int, int]


class Life(RuleBasedStateMachine):
    """A file that only sessiond writes."""

    truncates = True

    @initialize()
    def create(self) -> None:
        """Create the file; its header is acknowledged and so durable."""
        self.disk = FaultDisk(*(place.parent for place in PLACES), LOCKS)
        self.journal = Journal.create(self.disk, PLACES[0], HEADER, locks=LOCKS)
        self.journal.truncates = self.truncates
        self.lines = [HEADER]
        self.durable = 1
        self.refused: list[bytes] = []
        self.sent = 0
        self.copies = 0
        self.torn = 0, b""
        """Offset and bytes of the torn end that an opening found last."""

    def set_up(self, faults: list[Fault]) -> None:
        for op, nth, partial in faults:
            self.disk.fail(op, nth=nth, partial=partial)

    def new_lines(self, count: int) -> list[bytes]:
        self.sent += count
        return [b'["n",%d]' % n for n in range(self.sent - count, self.sent)]

    # -- what happens ----------------------------------------------------------------

    @rule(count=st.integers(1, 4), sync=st.booleans(), faults=FAULTS)
    def append(self, count: int, sync: bool, faults: list[Fault]) -> None:
        batch = self.new_lines(count)
        self.set_up(faults)
        trouble = bool(faults) or self.disk.capacity is not None
        try:
            self.store(batch, sync)
        except StorageError:
            self.disk.heal()
            stored = self.take_found()
            assert trouble
            assert self.truncates or stored == self.journal_lines()[len(self.lines) :]
            self.lines += stored
            # A crash may bring back this batch, or the batch of an earlier failed repair.
            self.refused += [line for line in batch if line not in stored]
        else:
            self.disk.heal()
            stored = self.take_found()
            self.lines += [*stored, *batch]
            if sync:
                self.settle()

    def store(self, batch: list[bytes], sync: bool) -> None:
        self.journal.append(batch, sync=sync)

    @rule(faults=FAULTS)
    def sync(self, faults: list[Fault]) -> None:
        self.set_up(faults)
        try:
            self.journal.sync()
        except StorageError:
            self.disk.heal()
            self.lines += self.take_found()
        else:
            self.disk.heal()
            self.lines += self.take_found()
            self.durable = len(self.lines)

    def take_found(self) -> list[bytes]:
        return [one.line for one in self.journal.take_found()]

    def settle(self) -> None:
        """Record that all lines are durable and that the file holds no other bytes."""
        self.durable = len(self.lines)
        self.refused = []

    @rule(nth=st.integers(1, 5), fails=st.booleans())
    def move(self, nth: int, fails: bool) -> None:
        target = PLACES[PLACES[0] == self.journal.path]
        if fails:
            self.disk.fail(None, nth=nth)
        try:
            self.journal.move(target)
        except StorageError:
            self.disk.heal()
        else:
            self.disk.heal()
            assert self.journal.path == target
            assert self.disk.crash().exists(target)

    @rule(write_bytes_max=st.sampled_from([1, 5, 17]), count=st.integers(1, 3))
    def append_in_pieces(self, write_bytes_max: int, count: int) -> None:
        self.disk.write_bytes_max = write_bytes_max
        self.append(count, True, [])

    @rule(room=st.integers(0, 60), count=st.integers(1, 4))
    def append_to_a_full_disk(self, room: int, count: int) -> None:
        self.disk.capacity = sum(len(self.disk.content(path)) for path in self.disk.paths) + room
        self.append(count, True, [])

    @rule(keep=st.integers(0, 120), names=st.integers(0, 4), zeros=st.integers(0, 20))
    def lose_power(self, keep: int, names: int, zeros: int) -> None:
        self.disk = self.disk.crash(keep=keep, names=names, zeros=zeros)
        self.start_again()

    @rule(drops=st.booleans())
    def kill(self, drops: bool) -> None:
        """Kill the process, not the machine: written bytes stay while the page cache has them."""
        self.disk = self.disk.kill()
        self.find_file(drops)
        self.start_again()

    @rule(faults=FAULTS, drops=st.booleans())
    def fail_to_open(self, faults: list[Fault], drops: bool) -> None:
        """Kill the process; the first opening of the next process fails."""
        self.disk = self.disk.kill()
        path = self.find_file(drops)
        self.set_up(faults)
        with suppress(StorageError):
            self.open_file(path).close()
        self.disk.heal()
        self.start_again()

    @rule(count=st.integers(1, 3), partial=st.integers(0, 40), closes=st.booleans())
    def end_before_the_repair(self, count: int, partial: int, closes: bool) -> None:
        """Let a sync and its repair fail: an opening finds bytes that only the page cache has."""
        self.append(count, True, [("fdatasync", 1, partial), ("open_append", 1, 0)])
        if closes:
            self.journal.close()
        else:
            self.disk = self.disk.kill()
        self.start_again()

    def find_file(self, drops: bool = False) -> Path:
        """Return the path of the file; with `drops` the kernel drops pages that count as clean."""
        (path,) = (place for place in PLACES if self.disk.exists(place))
        if drops:
            self.disk.evict(path)
        return path

    @precondition(lambda self: not self.refused)
    @rule(count=st.integers(1, 3), cut=st.integers(1, 30))
    def die_inside_a_write(self, count: int, cut: int) -> None:
        """Leave the first bytes of a batch in the file, with no process to cut them off."""
        batch = self.new_lines(count)
        if self.journal.torn_bytes:
            # An append cuts a torn end before it writes.
            self.journal.cut_tail(f"{self.copies}-cut")
        fd = self.disk.open_append(self.journal.path)
        self.disk.write(fd, b"".join(line + b"\n" for line in batch)[:cut])
        self.disk.close(fd)
        self.refused += batch
        self.kill(False)

    @precondition(lambda self: not self.refused)
    @rule()
    def close_and_open(self) -> None:
        self.journal.close()
        assert self.disk.open_descriptors == 0
        self.reopen()
        assert self.journal_lines() == self.lines
        self.settle()

    # -- what must hold ------------------------------------------------------------------

    def start_again(self) -> None:
        self.reopen()
        found = self.journal_lines()
        assert found[: self.durable] == self.lines[: self.durable]
        self.check_rest(found[self.durable :])
        self.lines = found
        self.settle()

    def check_rest(self, rest: list[bytes]) -> None:
        """Check that lines behind the durable ones were sent and are in the order of sending."""
        candidates = [*self.lines[self.durable :], *self.refused]
        positions = [candidates.index(line) for line in rest]
        assert positions == sorted(set(positions))

    def open_file(self, path: Path) -> Journal:
        journal = Journal.open(self.disk, path, lambda _seq, _lines: None, locks=LOCKS)
        journal.truncates = self.truncates
        return journal

    def reopen(self) -> None:
        self.journal = self.open_file(self.find_file())
        if self.journal.tail:
            self.deal_with_the_tail()

    def deal_with_the_tail(self) -> None:
        """Leave a torn end where it is: the next append puts it aside and cuts it."""
        self.copies += 1
        name = str(self.copies)
        content = self.disk.content(self.journal.path)
        self.journal.leave_torn(lambda: name, self.journal.line_count, lambda _seq, _lines: None)
        assert self.disk.content(self.journal.path) == content
        self.torn = self.journal.size_bytes, content[self.journal.size_bytes :]

    def journal_lines(self) -> list[bytes]:
        return self.journal.read(0, self.journal.line_count - 1)

    @invariant()
    def memory_is_what_was_acknowledged(self) -> None:
        assert self.journal_lines() == self.lines

    @invariant()
    def a_torn_end_is_where_it_was_or_beside_the_file(self) -> None:
        at, torn = self.torn
        if self.disk.content(self.journal.path)[at:].startswith(torn):
            return
        copies = [self.disk.content(path) for path in self.disk.paths if ".torn-" in path.name]
        # Another program may have added to the torn end before the torn end was put aside.
        assert any(copy.startswith(torn) for copy in copies), "bytes of a torn end are gone"

    @invariant()
    def a_power_cut_now_would_lose_nothing_durable(self) -> None:
        rebooted = self.disk.crash()
        (path,) = (place for place in PLACES if rebooted.exists(place))
        durable = b"".join(line + b"\n" for line in self.lines[: self.durable])
        assert rebooted.content(path).startswith(durable)


class LifeAmongOthers(Life):
    """A file with foreign writers: foreign bytes stay, and each writer's lines keep their order."""

    truncates = False

    @initialize()
    def create(self) -> None:
        super().create()
        self.acknowledged: list[bytes] = []
        self.theirs: list[bytes] = []
        self.half = self.landing = b""

    # -- foreign writers ---------------------------------------------------------------

    @rule(count=st.integers(0, 2), half=st.integers(0, 8), lands=st.booleans())
    def somebody_writes(self, count: int, half: int, lands: bool) -> None:
        """Add foreign bytes: the rest of a half line, whole lines, and the beginning of a line."""
        self.sent += count + 1
        lines = [b'{"t":%d}' % n for n in range(self.sent - count - 1, self.sent)]
        chunk = self.half + b"".join(line + b"\n" for line in lines[:count]) + lines[-1][:half]
        self.half = lines[-1][half:] + b"\n" if half else b""
        if lands:
            # This chunk replaces a chunk that has not landed yet, which then is never written.
            self.disk.land(self.journal.path, chunk)
            self.landing = chunk
        else:
            self.theirs.append(chunk)
            self.disk.write_as_another(self.journal.path, chunk)

    @rule(half=st.integers(0, 8), partial=st.integers(0, 40))
    def a_write_behind_theirs_fails(self, half: int, partial: int) -> None:
        self.somebody_writes(1, half, True)
        self.append(2, True, [("write", 1, partial)])

    @rule(closes=st.booleans(), faults=FAULTS)
    def look(self, closes: bool, faults: list[Fault]) -> None:
        self.set_up(faults)
        with suppress(StorageError):
            self.journal.look()
            if closes and self.journal.half_bytes:
                self.journal.close_half()
        self.disk.heal()
        self.lines += self.take_found()

    # -- what we do ----------------------------------------------------------------------

    def store(self, batch: list[bytes], sync: bool) -> None:
        for overtaken in range(9):
            try:
                self.journal.append(batch, sync=sync, late=overtaken > 1)
            except Overtaken:
                self.lines += self.take_found()
            else:
                # What landed right before ours.
                self.lines += self.take_found()
                self.acknowledged += batch
                return
        raise AssertionError("overtaken for ever")

    @rule()
    def close_and_open(self) -> None:
        self.journal.close()
        assert self.disk.open_descriptors == 0
        self.start_again()

    # -- what must hold ------------------------------------------------------------------

    def start_again(self) -> None:
        super().start_again()
        # What was not synced may be gone, and half a line at the end was dealt with.
        self.acknowledged = [line for line in self.acknowledged if line in self.lines]
        self.theirs, self.half, self.landing = [], b"", b""

    def deal_with_the_tail(self) -> None:
        if self.truncates:
            super().deal_with_the_tail()
        else:
            self.journal.leave_half()
            while self.journal.half_bytes:
                self.journal.close_half()
                self.journal.take_found()

    def check_rest(self, rest: list[bytes]) -> None:
        candidates = [*self.lines[self.durable :], *self.refused]
        for line in rest:
            assert line in candidates or not OURS.fullmatch(line), line

    @invariant()
    def each_acknowledged_line_is_there_once_and_in_order(self) -> None:
        ours = set(self.acknowledged)
        assert [line for line in self.lines if line in ours] == self.acknowledged

    @invariant()
    def nothing_that_others_wrote_was_touched(self) -> None:
        if self.landing and self.disk.has_landed:
            self.theirs.append(self.landing)
            self.landing = b""
        content, at = self.disk.content(self.journal.path), 0
        for chunk in self.theirs:
            at = content.find(chunk, at)
            assert at >= 0, chunk
            at += len(chunk)


class NativeLifeAmongOthers(LifeAmongOthers):
    """A file that sessiond alone should write, and does not."""

    truncates = True


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=30)
TestLifeAmongOthers = LifeAmongOthers.TestCase
TestLifeAmongOthers.settings = settings(max_examples=50, stateful_step_count=30)
TestNativeLifeAmongOthers = NativeLifeAmongOthers.TestCase
TestNativeLifeAmongOthers.settings = settings(max_examples=50, stateful_step_count=30)


def test_a_torn_end_that_another_program_has_added_to_is_put_aside_whole() -> None:
    life = NativeLifeAmongOthers()
    life.create()
    life.die_inside_a_write(count=1, cut=6)
    life.somebody_writes(count=0, half=1, lands=False)
    life.die_inside_a_write(count=1, cut=8)
    copies = [life.disk.content(path) for path in life.disk.paths if ".torn-" in path.name]
    assert copies == [b'["n",0{']
    life.a_torn_end_is_where_it_was_or_beside_the_file()
