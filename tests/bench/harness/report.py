"""The report of a run as text, and of two runs side by side.

Law: the report leaves nothing out. A missing peer, a failed row and a missed goal are in one
table with the goals that were met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.harness.figures import Spread, spread
from tests.bench.harness.results import Figure, RowResult, Run

__all__ = ["comparison", "report"]

UNITS = {
    "rate": "/s",
    "p50_us": "us p50",
    "p99_us": "us p99",
    "max_us": "us most",
    "seconds": "s",
    "peak_mib": "MiB at most",
    "us_each": "us each",
    "ms": "ms",
    "first_row": "ms",
    "first": "ms",
    "hover": "ms",
    "step": "ms",
    "step_cpu": "ms",
    "again": "ms",
    "first_search": "ms",
    "search": "ms",
    "forest": "ms",
    "wakeups": "wake-ups/s",
    "cpu": "% CPU",
    "kib": "KiB each",
    "mib": "MiB",
    "index": "MiB",
    "memory": "MiB",
}
HEADINGS = ("case", "metric", "ours", "peer", "ratio", "min..max", "goal", "verdict")


def report(run: Run) -> str:
    """Every row's table, then what the run comes to."""
    lines = [*_heading(run), ""]
    for row in run.rows:
        lines += [*_row(row), ""]
    return "\n".join([*lines, *_summary(run)]) + "\n"


def _heading(run: Run) -> Iterator[str]:
    where = run.machine
    state = " (modified)" if run.modified else ""
    yield f"sessiond bench, commit {run.commit[:12]}{state}, {run.started_at}"
    pinned = f"server on core {where.server_core}, client on core {where.client_core}"
    yield (
        f"{where.cpu}, {where.cores} cores, {where.kernel}, {where.python}, {where.filesystem}; "
        + (pinned if where.server_core is not None else "nothing pinned: one core")
    )
    yield ", ".join(f"{name} {version}" for name, version in run.versions.items())
    mode = " (quick: fewer requests, the mix only)" if run.quick else ""
    yield f"{run.rounds} interleaved rounds{mode}; medians, ratio ours/peer of the same round"


def _row(row: RowResult) -> Iterator[str]:
    yield f"Row {row.number}: {row.title}  [{row.seconds:.0f} s]"
    for peer in dict.fromkeys(figure.peer_is for figure in row.figures):
        if peer is not None:
            yield f"  peer: {peer.name} {peer.version}"
    for missing in row.missing:
        yield f"  missing: {missing}"
    if row.failed is not None:
        yield f"  FAILED: {row.failed}"
    if row.figures:
        yield from _table([HEADINGS, *map(_cells, row.figures)])
    for figure in row.figures:
        for note in figure.notes:
            yield f"  note, {figure.case}: {note}"


def _cells(figure: Figure) -> tuple[str, ...]:
    ratio = figure.ratio
    scaled = [value * figure.peer_factor for value in figure.peer]
    return (
        figure.case + (f" (pi x {figure.peer_factor:g})" if figure.peer_factor != 1 else ""),
        UNITS.get(figure.metric, figure.metric),
        _number(spread(figure.ours).median) if figure.ours else "-",
        _number(spread(scaled).median) if scaled else "-" if figure.absolute else "missing",
        _number(ratio.median) if ratio else "-",
        f"{_number(ratio.low)}..{_number(ratio.high)}" if ratio else "-",
        str(figure.goal) if figure.goal else "-",
        figure.verdict,
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if index in {0, 1, 7} else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _summary(run: Run) -> Iterator[str]:
    for row in run.rows:
        verdicts = [figure.verdict for figure in row.figures if figure.goal is not None]
        counts = ", ".join(
            f"{verdicts.count(word)} {word}"
            for word in ("pass", "short", "no peer", "not run")
            if word in verdicts
        )
        short = [
            f"{figure.case} {figure.metric} {_number(figure.judged.median)}"
            for figure in row.figures
            if figure.verdict == "short" and figure.judged is not None
        ]
        failed = "FAILED" if row.failed else ""
        words = "; ".join(filter(None, [failed, counts or "no goal", *row.missing]))
        yield f"row {row.number:>2}: {words}" + (f"  (short: {'; '.join(short)})" if short else "")
    yield f"{run.seconds:.0f} s"


def comparison(before: Run, after: Run) -> str:
    """Every figure that both runs have, with what became of its ratio."""
    lines = [
        f"A: {before.commit[:12]}, {before.started_at}, {before.rounds} rounds",
        f"B: {after.commit[:12]}, {after.started_at}, {after.rounds} rounds",
    ]
    if before.machine != after.machine:
        lines.append("the machines differ: ratios may be compared, with care")
    if before.quick != after.quick:
        lines.append("one of them was quick: its measurements are shorter")
    old, new = _by_key(before), _by_key(after)
    rows: list[Sequence[str]] = [("row", "case", "metric", "A", "B", "B/A", "goal", "B against A")]
    for key, mine in new.items():
        if key in old and (change := _change(old[key], mine)):
            rows.append((str(key[0]), mine.case, UNITS.get(mine.metric, mine.metric), *change))
    lines += _table(rows)
    only = [f"only in A: row {key[0]}, {key[1]}" for key in old if key not in new]
    only += [f"only in B: row {key[0]}, {key[1]}" for key in new if key not in old]
    return "\n".join([*lines, *only]) + "\n"


def _by_key(run: Run) -> dict[tuple[int, str, str, str], Figure]:
    found = {}
    for row in run.rows:
        for figure in row.figures:
            peer = figure.peer_is.name if figure.peer_is else ""
            found[row.number, figure.case, figure.metric, peer] = figure
    return found


def _change(old: Figure, new: Figure) -> tuple[str, ...] | None:
    before, after = old.judged, new.judged
    if before is None or after is None:
        return None
    verdicts = f"{old.verdict} -> {new.verdict}" if old.verdict != new.verdict else new.verdict
    return (
        _number(before.median),
        _number(after.median),
        _number(after.median / before.median) if before.median else "-",
        verdicts,
        _word(before, after, new),
    )


def _word(before: Spread, after: Spread, figure: Figure) -> str:
    if before.overlaps(after):
        return "same (ranges overlap)"
    higher_is_better = figure.goal.higher_is_better if figure.goal else figure.metric == "rate"
    better = (after.median > before.median) == higher_is_better
    return "better" if better else "WORSE"
