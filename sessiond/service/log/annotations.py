"""Annotations of an entry, added up from their lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessiond.dialects.base import Dialect
from sessiond.dialects.lenient_json import lenient
from sessiond.model.working.annotations import patch_of, patched
from sessiond.service.log.open_session import OpenSession


def annotations_of(opened: OpenSession, seq: int, upto: int) -> dict[str, Any]:
    """Return what the annotations of an entry say as of line `upto`. Blocks; raises StorageError."""
    seqs = opened.session.annotations_at(seq, upto)
    return summed(opened.dialect, opened.journal.read_many(seqs)) if seqs else {}


def summed(dialect: Dialect, lines: Iterable[bytes]) -> dict[str, Any]:
    """Return the sum of the annotations in these lines, oldest first."""
    found: dict[str, Any] = {}
    for line in lines:
        found = patched(found, patch_of(lenient(dialect.wire(line)).get("data")))
    return found
