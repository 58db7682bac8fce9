"""`make mutants`: plant each bug of this folder into a copy, and see the attackers find it.

    python tests/mutants/run.py                       all of them
    python tests/mutants/run.py NAME NAME             some
    python tests/mutants/run.py --list                what there is
    python tests/mutants/run.py --json                what came of it as one document

First every attacker that is needed attacks the code as it is, and must find nothing. A line
for each goes to standard output as it is known; with --json to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tests.mutants.attackers import ATTACKERS, Attacker
from tests.mutants.attacking import Outcome, run
from tests.mutants.copies import copy
from tests.mutants.patches import FOLDER, Mutant, StalePatch, load_all

__all__ = ["main"]

Say = Callable[[str], None]


class Tried(Struct, frozen=True):
    """A planted bug, an attacker, and the outcome."""

    mutant: str
    breaks: str
    attacker: str
    outcome: Literal["caught", "survived", "not tried"]
    said: str
    seconds: float

    def line(self) -> str:
        """Return the outcome in words."""
        if self.outcome == "caught":
            how = f"caught by {self.attacker} in {self.seconds:.1f} s: {self.said}"
        elif self.outcome == "survived":
            how = f"SURVIVED {self.attacker} for {self.seconds:.1f} s, and breaks {self.breaks}"
        else:
            how = f"NOT TRIED by {self.attacker}: {self.said}"
        return f"{self.mutant}: {how}"


def main(words: Sequence[str] | None = None) -> int:
    """0 = all caught, 1 = one survived or could not be tried, 2 = bad arguments."""
    options = _options(words)
    try:
        mutants = {one.name: one for one in load_all(options.folder)}
    except StalePatch as stale:
        sys.stderr.write(f"{stale}\n")
        return 1
    if unknown := set(options.names) - mutants.keys():
        sys.stderr.write(f"there is no {min(unknown)}; --list tells what there is\n")
        return 2
    chosen = [mutants[name] for name in options.names or mutants]
    if options.list:
        sys.stdout.writelines(f"{one.name}: {one.bug} (breaks {one.breaks})\n" for one in chosen)
        return 0
    out = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        out.write(f"{line}\n")
        out.flush()

    tried = _try_all(chosen, say)
    if options.json:
        sys.stdout.write(msgspec.json.encode(tried).decode() + "\n")
    caught = sum(one.outcome == "caught" for one in tried)
    say(f"{len(chosen)} planted bugs, {len(tried)} attacks, {caught} found what was planted")
    return int(caught < len(tried))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="do the attackers find bugs?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--list", action="store_true", help="tell what is planted, and do nothing")
    parser.add_argument("--json", action="store_true", help="one document instead of lines")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the patches are")
    return parser.parse_args(words)


def _try_all(mutants: Sequence[Mutant], say: Say) -> list[Tried]:
    """Every attack that the patches ask for, one after another."""
    needed = {name for mutant in mutants for name in mutant.attackers}
    attackers = {one.name: one for one in ATTACKERS if one.name in needed}
    useless = _not_holding(attackers.values(), say)
    useless |= dict.fromkeys(needed - attackers.keys(), "there is no such attacker")
    tried: list[Tried] = []
    for mutant in mutants:
        for name in mutant.attackers:
            if name in useless:
                one = Tried(mutant.name, mutant.breaks, name, "not tried", useless[name], 0.0)
            else:
                one = _try(mutant, attackers[name])
            tried.append(one)
            say(one.line())
    return tried


def _not_holding(attackers: Iterable[Attacker], say: Say) -> dict[str, str]:
    """Attackers that find something where nothing was planted, or cannot attack, and why."""
    found: dict[str, str] = {}
    with copy() as clean:
        clean.require_own_code()
        for attacker in attackers:
            start = time.monotonic()
            attack = run(attacker, clean)
            held = attack.outcome is Outcome.HELD
            what = "finds nothing in the code as it is" if held else f"IS NO USE: {attack.said}"
            say(f"{attacker.name} {what} ({time.monotonic() - start:.1f} s)")
            if not held:
                found[attacker.name] = f"without the bug as well: {attack.said}"
    return found


def _try(mutant: Mutant, attacker: Attacker) -> Tried:
    """Attack a planted bug in a copy of its own."""
    start = time.monotonic()
    outcome: Literal["caught", "survived", "not tried"] = "not tried"
    with copy() as planted:
        try:
            for path, text in mutant.planted(planted.tree).items():
                planted.write(path, text)
        except StalePatch as stale:
            said = str(stale)
        else:
            planted.require_own_code()
            attack = run(attacker, planted)
            said = attack.said
            if attack.outcome is not Outcome.NOT_RUN:
                outcome = "survived" if attack.outcome is Outcome.HELD else "caught"
    seconds = round(time.monotonic() - start, 1)
    return Tried(mutant.name, mutant.breaks, attacker.name, outcome, said, seconds)


if __name__ == "__main__":
    sys.exit(main())
