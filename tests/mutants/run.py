"""`make mutants`: plant each bug of `planted/` into a copy, and see a test find it.

    python -m tests.mutants.run                       all of them, by the tests that found them before
    python -m tests.mutants.run NAME NAME             some
    python -m tests.mutants.run --reach               and by all tests that reach them, where those find nothing
    python -m tests.mutants.run --reach --slice 3/12  the third twelfth of them
    python -m tests.mutants.run --changed --most 40 --seconds 120
                                                      what the last commits touched: 40 of them, within 120 s of
                                                      processors
    python -m tests.mutants.run --record              write down which test found each
    python -m tests.mutants.run --list                the names of all

A line for each bug goes to standard output as it is known; with --json to standard error, and one
document to standard output. 0 = all are found, 1 = one is not or is stale, 2 = bad arguments.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal
from zlib import crc32

import msgspec
from msgspec import Struct

from tests.kit.runs import COMMITS, Slice, processor_seconds, touched
from tests.mutants.attacking import Attack, Outcome, attack
from tests.mutants.bugs import FOLDER, Bug, Code, StaleBug, load_all
from tests.mutants.copies import REPOSITORY, Copy, copy
from tests.mutants.reach import functions_of, reached_by, tree_name

__all__ = ["main"]

Say = Callable[[str], None]
Borrow = Callable[[], AbstractContextManager[Copy]]

_FEW: Final = 10
GATE: Final = "not search"
# A bug that no test finds has been tried by so many at a time: most are found by the first few.
_STEPS: Final = (20, 100, 600)


class Tried(Struct, frozen=True):
    """A planted bug, and the outcome."""

    bug: str
    breaks: str
    outcome: Literal["caught", "survived", "not tried"]
    test: str
    said: str
    seconds: float

    def line(self) -> str:
        """Return the outcome in words."""
        if self.outcome == "caught":
            return f"{self.bug}: caught by {self.test} in {self.seconds:.1f} s: {self.said}"
        if self.outcome == "survived":
            return (
                f"{self.bug}: SURVIVED {self.said} ({self.seconds:.1f} s), and breaks {self.breaks}"
            )
        return f"{self.bug}: NOT TRIED: {self.said}"


def main(words: Sequence[str] | None = None) -> int:
    """0 = all caught, 1 = one survived, is stale or could not be tried, 2 = bad arguments."""
    options = _options(words)
    code = Code(REPOSITORY)
    try:
        bugs = load_all(options.folder)
        _require_fresh(bugs, code)
    except StaleBug as stale:
        sys.stderr.write(f"{stale}\n")
        return 1
    if unknown := set(options.names) - {bug.name for bug in bugs}:
        sys.stderr.write(f"there is no {min(unknown)}; --list tells what there is\n")
        return 2
    chosen = [bug for bug in bugs if not options.names or bug.name in options.names]
    if options.list:
        sys.stdout.writelines(f"{one.name}: {one.bug} (breaks {one.breaks})\n" for one in chosen)
        return 0
    return _run(chosen, code, options)


def _run(bugs: Sequence[Bug], code: Code, options: argparse.Namespace) -> int:
    """Try the bugs of the slice, or those that the last commits touched, and say what came of it."""
    out = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        out.write(f"{line}\n")
        out.flush()

    part = ""
    if options.slice:
        bugs = options.slice.of(bugs)
        part = f"slice {options.slice} of "
    if options.changed:
        bugs = _changed(bugs, code, say)
    if options.most:
        bugs = _most(bugs, options.most, say)
    tried, left_out = _try_all(bugs, options, say)
    if left_out:
        say(f"left out, for {options.seconds:g} s of processors are over: {', '.join(left_out)}")
    if options.record:
        _record([one for one in tried if one.outcome == "caught"], options.folder)
    if options.json:
        sys.stdout.write(msgspec.json.encode(tried).decode() + "\n")
    caught = sum(one.outcome == "caught" for one in tried)
    say(f"{part}tree {tree_name()}: {len(tried)} planted bugs tried, {caught} found")
    return int(caught < len(tried))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="do the tests find bugs?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--list", action="store_true", help="tell what is planted, and do nothing")
    parser.add_argument("--json", action="store_true", help="one document instead of lines")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the bugs are")
    parser.add_argument("--reach", action="store_true", help="also try all tests that reach a bug")
    parser.add_argument("--record", action="store_true", help="write down which test found each")
    parser.add_argument("--changed", action="store_true", help="only what the last commits touched")
    parser.add_argument("--most", type=int, help="only so many, which the tree's hash chooses")
    parser.add_argument("--seconds", type=float, help="end after so many seconds of processors")
    parser.add_argument(
        "--slice", type=Slice.parse, metavar="K/N", help="the K-th of N parts of them"
    )
    parser.add_argument("--marks", default=GATE, help=f"tests that may find one, default {GATE!r}")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time, default 2")
    return parser.parse_args(words)


def _require_fresh(bugs: Sequence[Bug], code: Code) -> None:
    """Raise StaleBug that names every bug that does not fit the code."""
    stale = []
    for bug in bugs:
        try:
            bug.planted(code)
        except StaleBug as error:
            stale.append(str(error))
    if stale:
        raise StaleBug("\n".join(stale))


def _changed(bugs: Sequence[Bug], code: Code, say: Say) -> list[Bug]:
    """Return the bugs in files of the last commits; where these are few, a part that the tree's hash chooses, too.

    A bug that only a search finds is none of them.
    """
    bugs = [bug for bug in bugs if not bug.only_search]
    files = {REPOSITORY / name for name in touched()}
    found = [bug for bug in bugs if any(path in files for path, _ in bug.places(code))]
    if len(found) < _FEW:
        number = crc32(tree_name().encode()) % COMMITS
        say(
            f"{len(found)} bugs in files of the last commits, and part {number + 1}/{COMMITS} of all"
        )
        found += [bug for bug in bugs[number::COMMITS] if bug not in found]
    return found


def _most(bugs: Sequence[Bug], count: int, say: Say) -> Sequence[Bug]:
    """Return so many of the bugs: the hash of the tree chooses, so that each has its turn, and one tree the same ones."""
    tree = tree_name()
    drawn = sorted(bugs, key=lambda bug: crc32(f"{tree} {bug.name}".encode()))
    if left_out := sorted(bug.name for bug in drawn[count:]):
        say(f"left out, for {count} have their turn on this tree: {', '.join(left_out)}")
    return drawn[:count]


def _try_all(
    bugs: Sequence[Bug], options: argparse.Namespace, say: Say
) -> tuple[list[Tried], list[str]]:
    """Return what came of all bugs, and the names of those that were left out for want of time."""
    reach = reached_by(load_all(options.folder), options.marks) if options.reach else {}
    tried: list[Tried] = []
    left_out: list[str] = []
    began = processor_seconds()
    with _copies(options.jobs) as borrow, ThreadPoolExecutor(options.jobs) as pool:

        def one(bug: Bug) -> None:
            if options.seconds and processor_seconds() - began >= options.seconds:
                left_out.append(bug.name)
                return
            with borrow() as planted:
                found = _try(bug, planted, reach.get(bug.name, ()), options.marks)
            tried.append(found)
            say(found.line())

        list(pool.map(one, bugs))
    return sorted(tried, key=lambda one: one.bug), sorted(left_out)


@contextmanager
def _copies(count: int) -> Iterator[Borrow]:
    """Make copies that are lent, each to one bug at a time."""
    free = SimpleQueue[Copy]()

    @contextmanager
    def borrow() -> Iterator[Copy]:
        lent = free.get()
        try:
            yield lent
        finally:
            free.put(lent)

    with ExitStack() as ends:
        for _ in range(count):
            made = ends.enter_context(copy())
            made.require_own_code()
            made.shorten_waits()
            free.put(made)
        yield borrow


def _try(bug: Bug, copy: Copy, reach: Sequence[str], marks: str) -> Tried:
    """Try the tests that found a bug before, then those that reach it."""
    start = time.monotonic()
    if bug.only_search:
        marks = ""
    with copy.planted(bug):
        found = _attack(copy, bug.found_by, marks)
    waiting = [test for test in reach if test not in bug.found_by]
    steps = iter(_STEPS)
    while found.outcome is not Outcome.VIOLATION and waiting:
        step = next(steps, len(waiting))
        now, waiting = waiting[:step], waiting[step:]
        with copy.planted(bug):
            found = _attack(copy, now, marks)
        if found.outcome is Outcome.VIOLATION:
            # A test that fails without the bug, too, has found nothing.
            clean = _attack(copy, [found.test], marks)
            if clean.outcome is not Outcome.HELD:
                waiting = [test for test in now if test != found.test] + waiting
                found = Attack(Outcome.HELD)
        elif found.outcome is Outcome.NOT_RUN and waiting:
            found = Attack(Outcome.HELD)
    seconds = round(time.monotonic() - start, 1)
    outcome: Literal["caught", "survived", "not tried"] = {
        Outcome.VIOLATION: "caught",
        Outcome.HELD: "survived",
        Outcome.NOT_RUN: "not tried",
    }[found.outcome]  # type: ignore[assignment]
    said = (
        found.said or f"{len(bug.found_by)} tests that found it before, {len(reach)} that reach it"
    )
    return Tried(bug.name, bug.breaks, outcome, found.test, said, seconds)


def _attack(copy: Copy, tests: Sequence[str], marks: str) -> Attack:
    places = functions_of(tests, copy.tree)
    if not places:
        return Attack(Outcome.NOT_RUN, said="no test is known that finds it: --reach looks for one")
    found = attack(copy, places, marks)
    if found.outcome is Outcome.NOT_RUN and found.test:
        # What a test needs may start more slowly than a test waits here, where others have the processors.
        with copy.patient():
            found = attack(copy, places, marks)
    return found


def _record(found: Sequence[Tried], folder: Path) -> None:
    """Write the test that found a bug into the bug."""
    for path in folder.glob("*.toml"):
        text = path.read_text("utf-8")
        for one in found:
            head = rf"^(\[{re.escape(one.bug)}\]\nbreaks = .*\nbug = .*\n)(?:found_by = .*\n)?"
            said = rf'\g<1>found_by = ["{one.test}"]\n'
            text = re.sub(head, said, text, flags=re.MULTILINE)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
