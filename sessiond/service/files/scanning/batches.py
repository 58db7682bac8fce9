"""Rows that a scan reads, stored a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sessiond.catalog.rows import Mark, Stored
from sessiond.limits import SCAN_BATCH_ROWS
from sessiond.service.store.listed import Report

Read = tuple[Stored, Mark | None]
"""A row, and the mark that the catalog had before the session was read."""


def store_in_batches(
    readings: Iterable[Read | None],
    gone: list[str],
    put: Callable[[list[Read], list[str]], None],
    report: Callable[[int], None],
) -> None:
    """Call `put` for each batch of readings, and `report` behind each reading with their number.

    The readings fill `gone` with the sessions that are gone; a reading is None without a new row. Of several
    readings of one session the last one counts.
    """
    rows: dict[str, Read] = {}
    for done, row in enumerate(readings, 1):
        if row is not None:
            rows[row[0].session_id] = row
        if len(rows) + len(gone) >= SCAN_BATCH_ROWS:
            put(list(rows.values()), gone)
            rows.clear()
            gone.clear()
        report(done)
    put(list(rows.values()), gone)


def for_many(report: Report, total: int) -> Callable[[int], None]:
    """Return the report of a scan of so many sessions; a scan of a few reports nothing."""
    if total <= SCAN_BATCH_ROWS:
        return lambda _done: None
    return lambda done: report(min(done, total), total)
