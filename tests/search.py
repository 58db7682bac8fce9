"""`make search`: everything that is drawn by dice or takes long. It never decides a landing.

    python -m tests.search --minutes 30 --seed 7           every drawn part, each for its share of the time
    python -m tests.search torture --minutes 10 --seed 7   one drawn part
    python -m tests.search luck --seed 7 --args TEST       the same test with the same dice again
    python -m tests.search interop --slice 1/2             a fixed part, or a slice of it

A drawn part ends when its time is over. Each failure is printed as the line that repeats it. A fixed part
runs to its end; its slices take at most 20 minutes each, and print one line with the hash of the tree, so that
a search can go on elsewhere. Exit status: 0 = nothing was found, 1 = something was, 2 = bad arguments.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.kit.dice import VARIABLE
from tests.kit.runs import Slice
from tests.mutants.reach import tree_name

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parent.parent
FAST: Final = "not slow and not interop and (trio or not search)"
_WORKERS: Final = ("-n", "3", "--dist", "worksteal")
_BATCH: Final = 12
"""Test files that run together: about a minute of two cores."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# Rounds count their seeds up from the first one, so the first ones are far apart.
_SEEDS: Final = 1_000_000
_BETWEEN: Final = 1000


class Drawn(Struct, frozen=True):
    """A part of the search that goes on with new dice until its time is over."""

    share: int
    """Share of the time of a search of all drawn parts."""
    run: Callable[[float, int, Sequence[str]], list[str]]
    """Search for so many seconds, from a seed on; return the lines that repeat what was found."""


def main(words: Sequence[str] | None = None) -> int:
    """Search, and return the exit status."""
    options = _options(words)
    seed = secrets.randbelow(_SEEDS) * _BETWEEN if options.seed is None else options.seed
    began = time.monotonic()
    if options.part in FIXED:
        found = FIXED[options.part](options.slice, options.args)
        part = f"{options.part} {options.slice or '1/1'}"
        seeds = ""
    else:
        found = list(_drawn(options.part, options.minutes * 60, seed, options.args))
        part, seeds = options.part or "drawn", f", seed {seed}"
    for line in found:
        _say(f"to repeat: {line}")
    minutes = (time.monotonic() - began) / 60
    outcome = f"{len(found)} failures" if found else "clean"
    _say(f"search {part}: {outcome} in {minutes:.1f} minutes{seeds}, tree {tree_name()}")
    return int(bool(found))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", default="", choices=["", *DRAWN, *FIXED])
    parser.add_argument("--minutes", type=float, default=10, help="for the drawn parts, default 10")
    parser.add_argument("--seed", type=int, help="first seed of the drawn parts, else a new one")
    parser.add_argument(
        "--slice", type=Slice.parse, help="K/N: the K-th of N slices of a fixed part"
    )
    parser.add_argument("--args", type=shlex.split, default=[], help="more words for the part")
    return parser.parse_args(words)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _drawn(part: str, seconds: float, seed: int, words: Sequence[str]) -> Iterator[str]:
    """Run one drawn part, or each for its share; yield the lines that repeat what was found."""
    parts = [part] if part else list(DRAWN)
    whole = sum(DRAWN[name].share for name in parts)
    for name in parts:
        _say(f"== {name}")
        yield from DRAWN[name].run(seconds * DRAWN[name].share / whole, seed, words)


# -- drawn parts --------------------------------------------------------------------------


def _tests(
    name: str, marks: str, *options: str
) -> Callable[[float, int, Sequence[str]], list[str]]:
    """Return the run of a part that draws tests, their order and their examples."""

    def run(seconds: float, seed: int, words: Sequence[str]) -> list[str]:
        end = time.monotonic() + seconds
        found: list[str] = []
        files = _files(marks)
        while True:
            chance = random.Random(seed)
            places = list(words) or chance.sample(files, min(len(files), _BATCH))
            done = _pytest(
                *options, "-m", marks, f"--randomly-seed={seed}", f"--hypothesis-seed={seed}",
                *places, seed=seed,
            )  # fmt: skip
            failed = _FAILED.findall(done.stdout)
            if done.returncode not in {0, 5} and not failed:
                failed = places
            _say(f"{name}, seed {seed}: {_last(done.stdout)}")
            if failed:
                _say(done.stdout)
            found += [f"make search PART={name} SEED={seed} ARGS={one!r}" for one in failed]
            seed += _BETWEEN
            if words or time.monotonic() >= end:
                return found

    return run


def _files(marks: str) -> list[str]:
    """Return the test files; of a mark that few tests have, those that name the mark."""
    found = sorted(ROOT.glob("tests/**/test_*.py"))
    if marks.isidentifier():
        found = [path for path in found if f"pytest.mark.{marks}" in path.read_text()]
    return [str(path.relative_to(ROOT)) for path in found]


def _program(name: str, *words: str) -> Callable[[float, int, Sequence[str]], list[str]]:
    """Return the run of a part that is a program with options for its minutes and its seed."""

    def run(seconds: float, seed: int, more: Sequence[str]) -> list[str]:
        asked = [one.format(minutes=f"{seconds / 60:.2f}", seed=seed) for one in (*words, *more)]
        done = subprocess.run([sys.executable, "-m", *asked], cwd=ROOT, check=False)
        return [f"make search PART={name} SEED={seed}"] if done.returncode else []

    return run


DRAWN: Final[Mapping[str, Drawn]] = {
    "luck": Drawn(5, _tests("luck", FAST, "--hypothesis-profile=luck")),
    "hesitation": Drawn(
        4, _tests("hesitation", FAST, "-p", "tests.hesitation", "--hypothesis-profile=luck")
    ),
    "drawn": Drawn(5, _tests("drawn", "drawn")),
    "torture": Drawn(
        6, _program("torture", "tests.torture.run", "--minutes", "{minutes}", "--seed", "{seed}")
    ),
    "siege": Drawn(
        5, _program("siege", "tests.postgresql.siege", "--minutes", "{minutes}", "--seed", "{seed}")
    ),
    "fuzz": Drawn(5, _program("fuzz", "tests.fuzz.run", "{minutes}", "{seed}")),
    "vanishing": Drawn(
        3, _program("vanishing", "tests.vanishing", "--minutes", "{minutes}", "--seed", "{seed}")
    ),
    "fleet": Drawn(
        3, _program("fleet", "tests.fleet", "--minutes", "{minutes}", "--seed", "{seed}")
    ),
    "crowd": Drawn(1, _program("crowd", "tests.crowd.run", "many")),
    "greedy": Drawn(
        2,
        _program(
            "greedy", "tests.crowd.run", "greedy", "--minutes", "{minutes}", "--seed", "{seed}"
        ),
    ),
}

# -- fixed parts --------------------------------------------------------------------------


def _marked(
    name: str, marks: str, *options: str
) -> Callable[[Slice | None, Sequence[str]], list[str]]:
    """Return the run of a part that is all tests with some marks."""

    def run(part: Slice | None, words: Sequence[str]) -> list[str]:
        sliced = [f"--slice={part}"] if part else []
        done = _pytest(*options, "-m", marks, *sliced, *words, seed=0, shown=True)
        # Nothing in a slice is no failure.
        again = f"make search PART={name}" + (f" SLICE={part}" if part else "")
        return [again] if done.returncode not in {0, 5} else []

    return run


def _pythons(part: Slice | None, _words: Sequence[str]) -> list[str]:
    done = subprocess.run(["scripts/pythons", str(part or "all")], cwd=ROOT, check=False)
    return [f"make search PART=pythons SLICE={part or '1/1'}"] if done.returncode else []


def _mutants(part: Slice | None, words: Sequence[str]) -> list[str]:
    sliced = [f"--slice={part}"] if part else []
    asked = [sys.executable, "-m", "tests.mutants.run", "--reach", *sliced, *words]
    done = subprocess.run(asked, cwd=ROOT, check=False)
    return [f"make search PART=mutants SLICE={part or '1/1'}"] if done.returncode else []


FIXED: Final[Mapping[str, Callable[[Slice | None, Sequence[str]], list[str]]]] = {
    "interop": _marked("interop", "interop and not drawn"),
    "long": _marked("long", "(search or slow) and not (drawn or interop or trio or real_clock)"),
    "clocks": _marked("clocks", "real_clock"),
    "trio": _marked("trio", "trio"),
    "elsewhere": _marked("elsewhere", "not slow and not interop and not search", "-p", "tests.elsewhere"),
    "pythons": _pythons,
    "mutants": _mutants,
}  # fmt: skip


def _pytest(*words: str, seed: int, shown: bool = False) -> subprocess.CompletedProcess[str]:
    """Run pytest with these words; the dice of drawn tests begin with this seed."""
    order = (
        () if any(word.startswith("--randomly-seed") for word in words) else ("-p", "no:randomly")
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--timeout=600", *_WORKERS, *order, *words],
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(seed), "SESSIOND_COMMANDS": "whole"},
        stdout=None if shown else subprocess.PIPE,
        stderr=None if shown else subprocess.STDOUT,
        text=True,
        check=False,
    )


def _last(text: str) -> str:
    """Return the last line of pytest's output: what passed and what failed."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no output")


if __name__ == "__main__":
    sys.exit(main())
