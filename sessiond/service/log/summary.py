"""Summary of a session's messages for lists: the first message, the usage.

A summary covers everything up to a line and never changes; the next summary adds the lines since.
Only those lines are read, in any thread, beside an append.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from sessiond.dialects.base import Dialect
from sessiond.journal.store import SessionLog
from sessiond.limits import FIRST_MESSAGE_CHARS
from sessiond.model.row import Kind
from sessiond.model.usage import Usage
from sessiond.service.log.chunks import chunks
from sessiond.session.index import Session

__all__ = ["SUMMED_KINDS", "Summary", "Tally", "catch_up", "decode_summary", "unread_bytes"]

_USER: Final = int(Kind.USER)
_ASSISTANT: Final = int(Kind.ASSISTANT)
SUMMED_KINDS: Final = bytes(kind in {_USER, _ASSISTANT} for kind in range(256))
"""One byte per kind: 1 if its lines add to a summary."""


class Summary(Struct, frozen=True):
    """First message and usage of the lines up to `seq`."""

    seq: int = 0
    first_message: str | None = None
    usage: Usage | None = None


_decoder: Final = msgspec.json.Decoder(Summary)


def decode_summary(saved: bytes) -> Summary:
    """Return a saved summary; the empty one if another version, or no version, saved it."""
    try:
        return _decoder.decode(saved)
    except msgspec.DecodeError:
        return Summary()


class Tally:
    """Summary under construction: takes users' and assistants' lines in order."""

    def __init__(self, dialect: Dialect, base: Summary) -> None:
        self._dialect = dialect
        self._first_message = base.first_message
        self._usage = base.usage

    def take(self, kind: int, line: bytes) -> None:
        """Add one line, of a kind among SUMMED_KINDS."""
        if kind == _ASSISTANT:
            usage = self._dialect.usage(line)
            if usage is not None:
                self._usage = usage if self._usage is None else self._usage.plus(usage)
        elif self._first_message is None:
            self._first_message = self._dialect.preview(line, FIRST_MESSAGE_CHARS - len("..."))

    def summary(self, seq: int) -> Summary:
        """Return the summary of everything up to `seq`."""
        return Summary(seq, self._first_message, self._usage)


def catch_up(
    base: Summary, session: Session, journal: SessionLog, dialect: Dialect, upto: int
) -> Summary:
    """Return the summary up to a line. Reads the lines after `base`; raises StorageError."""
    tally = Tally(dialect, base)
    for chunk in chunks(journal, _unread(base, session, upto)):
        for seq, line in zip(chunk, journal.read_many(chunk), strict=True):
            tally.take(session.kinds[seq], line)
    return tally.summary(upto)


def unread_bytes(base: Summary, session: Session, journal: SessionLog) -> int:
    """Return how many bytes an update of the summary reads."""
    return sum(map(journal.line_bytes, _unread(base, session, session.seq)))


def _unread(base: Summary, session: Session, upto: int) -> Iterator[int]:
    """Yield the lines behind `base` that add to the summary: every assistant's, the first user's."""
    kinds = session.kinds
    first = kinds.find(_USER, base.seq + 1, upto + 1) if base.first_message is None else -1
    if first >= 0:
        yield first
    at = kinds.find(_ASSISTANT, base.seq + 1, upto + 1)
    while at >= 0:
        yield at
        at = kinds.find(_ASSISTANT, at + 1, upto + 1)
