"""Row 20: a file of 50 MB in an editor: the time to the first symbols, an edit, the longest step.

`sessiond lsp` and a daemon that has never seen the file, from the message that opens the document to
the first symbols and to a hover behind them; then an edit in the middle and a hover there. A step is one call of the server's event loop:
while a step lasts, the server does nothing else. There is no peer; the goal for a step is a time.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.machine import on_core
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, daemon, new_home
from tests.bench.harness.stored import linked, native_file
from tests.kit.lsp_link import LspLink, language_server
from tests.kit.steps import longest

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK = 37_000, 7_400
STEP_MS = 50


def opened(bench: Bench, entries: int) -> Sample:
    """Measure an editor's first questions about a file."""
    home = new_home(bench.folder)
    path = linked(native_file(bench.cache, entries), home)
    steps = home / "steps"
    with daemon(bench.folder, bench.cores.server, home) as ours:
        command = [sys.executable, "-m", "tests.kit.steps", str(steps), "time", "lsp"]
        place = ["--socket", str(ours.socket_path), "--home", str(home), "--no-start"]
        with on_core(bench.cores.server), language_server([*command, *place]) as link:
            begun = time.perf_counter()
            document = link.open(path)
            symbols = link.ask("textDocument/documentSymbol", document)
            first = time.perf_counter()
            _hover(link, path, entries // 2)
            hovered = time.perf_counter()
            link.change(path, _space_in(entries // 2))
            _hover(link, path, entries // 2)
            edited = time.perf_counter()
        if len(symbols) < 2:
            raise BenchError(f"{len(symbols)} symbols of {entries} entries")
    step = longest(steps)
    return {
        "first": (first - begun) * 1000,
        "hover": (hovered - begun) * 1000,
        "again": (edited - hovered) * 1000,
        "step": step.wall_ms,
        "step_cpu": step.cpu_ms,
    }


def _space_in(line: int) -> object:
    """Return an edit that puts a space before a line."""
    place = {"line": line, "character": 0}
    return {"range": {"start": place, "end": place}, "text": " "}


def _hover(link: LspLink, path: Path, line: int) -> None:
    """Ask for a hover. Raises BenchError without one."""
    asked = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": 0}}
    if link.ask("textDocument/hover", asked) is None:
        raise BenchError(f"no hover in line {line}")


def measure(bench: Bench, result: RowResult) -> None:
    """Measure the language server alone."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES
    size = native_file(bench.cache, entries).stat().st_size / 1e6
    measured = bench.contest("editor", [Entrant("ours", partial(opened, bench, entries))])
    pair = Pair("ours", None, SESSIOND)
    for metric, case, goal in (
        ("first", "first symbols", None),
        ("hover", "first hover", None),
        ("again", "edit in the middle, and a hover", None),
        ("step", "longest step, by the clock", None),
        ("step_cpu", "longest step, on its thread", at_most(STEP_MS)),
    ):
        made = figure(measured, pair, metric, case=f"{case}, {size:.0f} MB", goal=goal)
        result.figures.append(msgspec.structs.replace(made, absolute=True, peer_is=None))


ROW = Row(20, "a large file in an editor", measure)
