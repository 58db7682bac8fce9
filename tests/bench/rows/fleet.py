"""Row 21: a year of sessions of five agents, at sizes ten times apart, beside a look at the same files.

The files are a fleet of `tests/kit/fleet.py`: 1,000 and 10,000, with `--full` 100,000 too. A round starts a daemon on
an empty home, and runs the peers on the same files: a list of their names, a search through all of them, and the first
64 KiB of each. Before the first list, and before each peer, no byte of the files is in memory; their names may be. The daemon
has all cores, since a scan uses them; nothing else runs meanwhile. Then
each cost is compared with that at a tenth of the size. At most three rounds are made. The peers are `rg --files` and `rg`, or `find` and `grep -r` where there is no `rg`, and `head -c 65536`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from tests.bench.harness.bench import Bench, Measured, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.link import Link
from tests.bench.harness.proc import process_of, resident_kib
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample, contest
from tests.bench.harness.servers import SESSIOND, daemon
from tests.kit.fleet import Fleet

__all__ = ["ROW"]

SIZES, SIZES_QUICK, SIZES_FULL = (1_000, 10_000), (100, 1_000), (1_000, 10_000, 100_000)
MEAN_BYTES: Final = 16_000
PAGE, LATER_PAGE = 1_000, 50
ROUNDS_MAX: Final = 3
AGAIN: Final = 20
# The first search reads the words of all sessions.
ANSWER_SECONDS: Final = 3_600
HEAD_BYTES: Final = 65_536
NAMES, WORDS, HEADS = "names", "words", "heads"
_CASES: Final = {
    "first_row": ("from start-up to the first row", NAMES),
    "first": ("from start-up to the whole first list", HEADS),
    "first_search": ("the first search", WORDS),
    "again": ("later lists", NAMES),
    "search": ("later searches", WORDS),
    "index": ("size of the index, against the files", "bytes"),
    "memory": ("memory of the daemon", None),
}
"""Each metric: what it is called, and the metric of the peers beside it."""
_SIXFOLD: Final = at_most(6)
_FLAT: Final = at_most(1.5)


class _Listed(Struct):
    sessions: list[Any]
    next_cursor: str | None = None


class _Hits(Struct):
    hits: list[Any]


class _Kept(Struct):
    """A fleet in the cache: its roots by kind, its number of sessions, and a word with the number of its sessions."""

    roots: dict[str, str]
    sessions: int
    word: str
    holders: int


def kept_fleet(cache: Path, files: int) -> tuple[Path, _Kept]:
    """Return a folder with a fleet, which is made once, and what is known of it."""
    folder = cache / f"fleet-{files}-{MEAN_BYTES}"
    about = folder / "about.json"
    if not about.exists():
        shutil.rmtree(folder, ignore_errors=True)
        fleet = Fleet(folder / "agents", mean_bytes=MEAN_BYTES)
        fleet.fill(files)
        main = sum(one.parent is None for one in fleet.sessions.values())
        word = next(word for word in fleet.words if word.isascii() and len(fleet.holders(word, parts=False)) > 1)  # fmt: skip
        roots = {kind: str(root) for kind, root in fleet.roots.items()}
        known = _Kept(roots, main, word, len(fleet.holders(word, parts=False)))
        about.write_bytes(msgspec.json.encode(known))
    return folder / "agents", msgspec.json.decode(about.read_bytes(), type=_Kept)


def ours(bench: Bench, files: int) -> Sample:
    """Measure a daemon that has never seen a fleet: lists, searches, and what it keeps."""
    folder, known = kept_fleet(bench.cache, files)
    _cool(folder)
    start = time.perf_counter()

    def since() -> float:
        return (time.perf_counter() - start) * 1000

    with daemon(bench.folder, bench.cores.every) as server, server.connect() as link:
        link.wait_up_to(ANSWER_SECONDS)
        for kind, path in known.roots.items():
            link.ask("catalog/roots", {"action": "add", "path": path, "kind": kind}, Any)
        asked: dict[str, Any] = {"limit": 1, "whole": False}
        while not link.ask("session/list", asked, _Listed).sessions:
            pass
        first_row = since()
        if _list_all(link) != known.sessions:
            raise BenchError(f"not all of {known.sessions} sessions are listed")
        first = since()
        asked = {"query": known.word, "limit": PAGE}
        start = time.perf_counter()
        hits = link.ask("session/search", asked, _Hits).hits
        first_search = since()
        if len({hit["session_id"] for hit in hits}) != known.holders:
            raise BenchError(f"{known.holders} sessions have the word, and the search has others")
        index = server.home.rglob("search.sqlite*")
        return {
            "first_row": first_row,
            "first": first,
            "first_search": first_search,
            "again": _each(link, "session/list", {"limit": LATER_PAGE}),
            "search": _each(link, "session/search", asked),
            "index": sum(path.stat().st_size for path in index) / 2**20,
            "memory": resident_kib(process_of(link)) / 1024,
        }


def _list_all(link: Link) -> int:
    count, cursor = 0, None
    while True:
        page = link.ask("session/list", {"limit": PAGE, "cursor": cursor}, _Listed)
        count, cursor = count + len(page.sessions), page.next_cursor
        if cursor is None:
            return count


def _each(link: Link, method: str, params: dict[str, Any]) -> float:
    start = time.perf_counter()
    for _ in range(AGAIN):
        link.ask(method, params, Any)
    return (time.perf_counter() - start) / AGAIN * 1000


def peers(bench: Bench, files: int) -> Sample:
    """Measure how long other programs take for the same files."""
    folder, known = kept_fleet(bench.cache, files)
    names = ("rg", "--files") if shutil.which("rg") else ("find", "-type", "f")
    words = ("rg", "-l", "-uuu", "--") if shutil.which("rg") else ("grep", "-rl", "--")
    heads = ("sh", "-c", f"find -type f -print0 | xargs -0 head -qc {HEAD_BYTES}")
    return {
        NAMES: _run(folder, *names),
        WORDS: _run(folder, *words, known.word, "."),
        HEADS: _run(folder, *heads),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20,
    }


def _cool(folder: Path) -> None:
    """Let the system forget the bytes of all files of a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fdatasync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def _run(folder: Path, *command: str) -> float:
    _cool(folder)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in {0, 1}:
        raise BenchError(f"{command[0]} ends with {done.returncode}")
    return (time.perf_counter() - start) * 1000


def _contenders() -> dict[str | None, Contender]:
    has_rg = shutil.which("rg") is not None
    return {
        NAMES: Contender("rg --files" if has_rg else "find, for want of rg --files", ""),
        WORDS: Contender("rg" if has_rg else "grep -r, for want of rg", ""),
        HEADS: Contender(f"head -c {HEAD_BYTES} of each file", ""),
        "bytes": Contender("the files", ""),
        None: SESSIOND,
    }


def measure(bench: Bench, result: RowResult) -> None:
    """Measure each size beside its peers, then how each cost grows."""
    sizes = SIZES_QUICK if bench.quick else SIZES_FULL if bench.full else SIZES
    if shutil.which("rg") is None:
        result.missing.append("rg: not installed; find and grep -r stand for it")
    measured: Measured = {}
    for files in sizes:
        bench.tell(f"a fleet of {files:,} files")
        kept_fleet(bench.cache, files)
        entrants = [
            Entrant(f"ours, {files}", partial(ours, bench, files)),
            Entrant(f"peers, {files}", partial(peers, bench, files)),
        ]
        rounds = min(bench.rounds, ROUNDS_MAX)
        measured |= contest(entrants, rounds, lambda what: bench.tell(f"fleet: {what}"))
    contenders = _contenders()
    for files in sizes:
        for metric, (case, beside) in _CASES.items():
            both = {"ours": {metric: measured[f"ours, {files}"][metric]}}
            if beside is not None:
                both["peer"] = {metric: measured[f"peers, {files}"][beside]}
            pair = Pair("ours", "peer" if beside is not None else None, contenders[beside])
            goal = _SIXFOLD if metric == "first" else None
            result.figures.append(
                figure(both, pair, metric, case=f"{case}, {files:,} files", goal=goal)
            )
    for few, many in pairwise(sizes):
        tenth = Contender(f"sessiond with {few:,} files", SESSIOND.version)
        for metric, (case, _) in _CASES.items():
            pair = Pair(f"ours, {many}", f"ours, {few}", tenth)
            goal = _FLAT if metric in {"again", "search"} else None
            named = f"growth from {few:,} to {many:,} files: {case}"
            result.figures.append(figure(measured, pair, metric, case=named, goal=goal))


ROW = Row(21, "a year of sessions of five agents, beside rg and head", measure)
