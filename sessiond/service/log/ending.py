"""Ending of a path: its last message, which says whether the work of the session goes on.

Law: an answer about a session costs at most one read of a line, of at most INLINE_READ_BYTES on the
loop. A longer line is read by the worker thread that stores the session's row in the catalog, or
that opens the session; until then its kind alone decides.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from sessiond.dialects.base import BadLine, Dialect
from sessiond.dialects.lenient_json import fields, text
from sessiond.dialects.payload import outcome_of
from sessiond.errors import SessiondError
from sessiond.journal.store import SessionLog
from sessiond.limits import INLINE_READ_BYTES, LIST_LINE_BYTES
from sessiond.model.row import Kind
from sessiond.model.short_texts import shortened
from sessiond.session.index import Session

WorkingState = Literal["active", "done", "error"]

_ASSISTANT: Final = int(Kind.ASSISTANT)
CONVERSATION: Final = frozenset({int(Kind.USER), _ASSISTANT, int(Kind.TOOL)})
"""Kinds of the messages of a turn: a prompt, an answer, a result."""

_STATES: Final[dict[str, WorkingState]] = {"done": "done", "error": "error"}
_OUTCOMES: Final[dict[str, WorkingState]] = {"said": "done", "failed": "error", "calls": "active"}


class Ending(Struct, frozen=True):
    """The last message of a path: its line, the state that it leaves, its time ("" if unknown)."""

    seq: int
    state: WorkingState
    at: str = ""


class SessionState(Struct, frozen=True):
    """Working state of a session; a `status` that was set wins over the state of the last turn."""

    status: str | None
    started_at: str | None
    ended_at: str | None

    @classmethod
    def of(cls, session: Session, ending: Ending | None, stated: str | None) -> SessionState:
        """Return the state of a session whose status may be `stated`."""
        if ending is None:
            return cls(stated, None, None)
        status = stated or ending.state
        is_over = (status if status in {"active", *_STATES} else ending.state) in _STATES
        ended_at = (ending.at or session.updated_at or None) if is_over else None
        return cls(status, session.started_at or None, ended_at)


class EndingCache:
    """The ending of main's path in one open session."""

    def __init__(self) -> None:
        self._known: Ending | None = None
        # The leaf that was asked for last, and the line of the last message above the leaf. The loop and
        # a thread may ask at once, so both change in one step.
        self._last = (0, 0)

    def near(self, session: Session, journal: SessionLog, dialect: Dialect) -> Ending | None:
        """Return the ending, which a long line decides by its kind; None without a turn."""
        return self._ending(session, journal, dialect, INLINE_READ_BYTES)

    def known(self, session: Session, journal: SessionLog, dialect: Dialect) -> Ending | None:
        """Return the ending without a read: by the kind of its message, unless its line was read."""
        return self._ending(session, journal, dialect, 0)

    def read(self, session: Session, journal: SessionLog, dialect: Dialect) -> Ending | None:
        """Return the ending, of a line of any size. For worker threads."""
        return self._ending(session, journal, dialect, None)

    def take(self, session: Session, dialect: Dialect, seq: int, line: bytes) -> None:
        """Take the line `seq` of a session whose lines cannot be read again. Raises BadLine.

        If main's path ends with another message, the kind of that message decides.
        """
        last = self._last_message(session)
        kind = session.kinds[last]
        if last:
            is_it = last == seq
            self._known = _ending_of(dialect, seq, kind, line) if is_it else _by_kind(last, kind)

    def _ending(
        self, session: Session, journal: SessionLog, dialect: Dialect, bytes_max: int | None
    ) -> Ending | None:
        seq = self._last_message(session)
        if not seq:
            return None
        known = self._known
        if known is not None and known.seq == seq:
            return known
        kind = session.kinds[seq]
        try:
            if bytes_max is None or journal.line_bytes(seq) <= bytes_max:
                (line,) = journal.read(seq, seq)
                short = shortened(line, LIST_LINE_BYTES)
                self._known = known = _ending_of(dialect, seq, kind, short)
                return known
        except (SessiondError, BadLine):
            # The file cannot be read now, or has changed: the next look at the file tells.
            pass
        return _by_kind(seq, kind)

    def _last_message(self, session: Session) -> int:
        """Return the line of the last message on main's path; 0 without a turn."""
        leaf = session.heads["main"].leaf
        if not session.turn_counts[leaf]:
            return 0
        kinds, parents, at = session.kinds, session.parents, leaf
        known, said = self._last
        while kinds[at] not in CONVERSATION:
            at = parents[at]
            if at == known and said:
                # Entries that are no messages are walked once, however many there are.
                at = said
        self._last = (leaf, at)
        return at


def _by_kind(seq: int, kind: int) -> Ending:
    return Ending(seq, "done" if kind == _ASSISTANT else "active")


def _ending_of(dialect: Dialect, seq: int, kind: int, line: bytes) -> Ending:
    """Return the ending that a line is. Raises BadLine."""
    members = fields(dialect.wire(line))
    stated = text(members.get("turn_status"))
    at = text(members.get("ended_at")) or dialect.timestamp(line)
    if stated is not None:
        return Ending(seq, _STATES.get(stated, "active"), at)
    if kind != _ASSISTANT or "message" not in members:
        return Ending(seq, "active", at)
    return Ending(seq, _OUTCOMES[outcome_of(members["message"])], at)
