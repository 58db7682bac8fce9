"""Tokens of the context at an entry, estimated from the stored lines.

Law: the tokens of an entry never change, so its line is read once; the next turn costs its own
entries. An answer that reports the cost of its whole request ends the walk, so little is read of
a session whose messages report usage. Large reads happen in a worker thread; every thread
computes equal numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from anyio import to_thread
from msgspec import Struct

from sessiond.dialects.base import ContextLine
from sessiond.limits import INLINE_READ_BYTES, INLINE_WALK_STEPS
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import CONTEXT_KINDS, MESSAGE_KINDS, Kind
from sessiond.service.context.context_lines import context_line, settings_before
from sessiond.service.context.growth import growth, may_be_less
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.policies import Policies
from sessiond.session.context.context import BEGINS, context_end, plan_context
from sessiond.session.context.tokens import Estimator, spent

_UNKNOWN: Final = -1
_PLACE: Final = array("q", (_UNKNOWN,))


class _Table(Struct):
    """Figures by one estimator: the tokens of each entry, and of the context at each entry."""

    estimator: Estimator
    quick: bool
    """True if the estimator is our own code and may count on the loop."""
    own: array[int]
    totals: array[int]

    def reach(self, seq: int) -> None:
        """Extend the columns up to a line.

        Two threads may both extend them: too many places do no harm.
        """
        for column in (self.own, self.totals):
            if len(column) <= seq:
                column.extend(_PLACE * (seq + 1 - len(column)))


class TokenCounts:
    """Token figures of one session."""

    def __init__(self, opened: OpenSession, policies: Policies) -> None:
        self._opened = opened
        self._policies = policies
        self._table: _Table | None = None

    def now(self, leaf: int) -> int | None:
        """Return the tokens of the context at `leaf` if that is cheap, else None. Raise StorageError."""
        leaf = context_end(self._opened.session, leaf)
        table = self._current(leaf)
        if table.totals[leaf] != _UNKNOWN:
            return table.totals[leaf]
        if not (table.quick and _is_small(table, self._opened, leaf)):
            return None
        return _settle(table, self._opened, leaf)

    async def ask(self, leaf: int) -> int:
        """Return the tokens of the context at `leaf`, counted in a worker thread if necessary."""
        tokens = self.now(leaf)
        return await to_thread.run_sync(self.find, leaf) if tokens is None else tokens

    async def growth(self, since: int, leaf: int) -> int | None:
        """Return an upper bound of the tokens added from `since` to `leaf`; None if only `ask` can tell."""
        look = partial(growth, self._opened, self._current(leaf).estimator, since, leaf)
        return look() if self._is_near(since, leaf) else await to_thread.run_sync(look)

    async def may_be_less(self, since: int, leaf: int) -> bool:
        """Return whether there may be fewer tokens at `leaf` than at `since`."""
        look = partial(may_be_less, self._opened, since, leaf)
        return look() if self._is_near(since, leaf) else await to_thread.run_sync(look)

    def _is_near(self, since: int, leaf: int) -> bool:
        if not since < leaf <= since + INLINE_WALK_STEPS:
            return leaf <= since
        return self._opened.journal.span_bytes(since + 1, leaf) <= self._opened.inline_bytes

    def find(self, leaf: int) -> int:
        """Return the tokens of the context at `leaf`; read all that is necessary. For worker threads."""
        leaf = context_end(self._opened.session, leaf)
        return _settle(self._current(leaf), self._opened, leaf)

    def _current(self, leaf: int) -> _Table:
        """Return the table of the estimator in force."""
        policy = self._policies.of(self._opened)
        estimator = self._policies.estimator(policy)
        table = self._table
        if table is None or table.estimator is not estimator:
            own, totals = array("q", (0,)), array("q", (0,))
            table = self._table = _Table(estimator, policy.tokenizer is None, own, totals)
        table.reach(leaf)
        return table


def _is_small(table: _Table, opened: OpenSession, leaf: int) -> bool:
    """Return whether the tokens at `leaf` need few steps and reads even if no usage is found."""
    session, size = opened.session, 0
    for steps, at in enumerate(session.up(leaf)):
        if table.totals[at] != _UNKNOWN:
            break
        if steps > INLINE_WALK_STEPS or size > opened.inline_bytes:
            return False
        if session.kinds[at] in BEGINS:
            first = session.kept_from.get(at, 0)
            edited = session.kinds[at] == Kind.CONTEXT_EDIT
            if (first or edited) and session.depths[at] - session.depths[first] > INLINE_WALK_STEPS:
                return False
            size += _bytes(opened, plan_context(session, at).seqs)
            size += sum(map(opened.journal.line_bytes, settings_before(opened, at)))
            break
        size += _bytes(opened, (at,))
    return size <= opened.inline_bytes


def _settle(table: _Table, opened: OpenSession, leaf: int) -> int:
    """Return the tokens at `leaf`, and record those of every entry on the way down to it."""
    session, totals = opened.session, table.totals
    way: list[int] = []
    at = leaf
    while totals[at] == _UNKNOWN:
        if session.kinds[at] in BEGINS:
            totals[at] = _at_beginning(table, opened, at)
            break
        chunk = _next_up(table, opened, at)
        answered = _read(table, opened, chunk)
        if answered:
            way += chunk[: chunk.index(answered)]
            at = answered
            break
        way += chunk
        at = session.parents[chunk[-1]]
    tokens = totals[at]
    for seq in reversed(way):
        tokens += table.own[seq]
        totals[seq] = tokens
    return tokens


def _next_up(table: _Table, opened: OpenSession, leaf: int) -> list[int]:
    """Return the next entries from `leaf` up without a figure, about INLINE_READ_BYTES at most."""
    session, size = opened.session, 0
    found: list[int] = []
    for at in session.up(leaf):
        if size >= INLINE_READ_BYTES or table.totals[at] != _UNKNOWN:
            break
        if session.kinds[at] in BEGINS:
            break
        found.append(at)
        size += _bytes(opened, (at,))
    return found


def _read(table: _Table, opened: OpenSession, seqs: Sequence[int]) -> int:
    """Record the tokens of each of these entries, the newest first.

    Stops at the first message that reports the cost of everything up to it, and returns its seq; else 0.
    """
    for seq, line in _lines(opened, seqs):
        table.own[seq], reading = _own(table, opened, seq, line)
        if reading is not None and table.estimator.believes_usage and (cost := spent(reading)):
            table.totals[seq] = cost
            return seq
    return 0


def _at_beginning(table: _Table, opened: OpenSession, seq: int) -> int:
    """Return the tokens at a compaction or an edit, where every message is estimated.

    Usually that is the sum of the known figures of the messages. Messages that depend on their
    neighbours (an edited message, one of the system, which a compaction may replace, or the notice
    of another compaction) are read together with them.
    """
    session = opened.session
    plan = plan_context(session, seq)
    seqs, compaction = plan.seqs, plan.compaction
    dependent = {int(Kind.CONTEXT_EDIT), int(Kind.OTHER_ROLE)}
    notices = {at for at in seqs if session.kinds[at] == Kind.COMPACTION} - {compaction}
    if notices or any(session.kinds[at] in dependent for at in seqs):
        lines = [context_line(opened, at, line, compaction) for at, line in _lines(opened, seqs)]
        return _estimate(table, opened, lines)
    unread = [at for at in seqs if table.own[at] == _UNKNOWN or at == seq]
    for at, line in _lines(opened, unread):
        table.own[at] = _own(table, opened, at, line)[0]
    return sum(table.own[at] for at in seqs)


def _own(
    table: _Table, opened: OpenSession, seq: int, line: bytes
) -> tuple[int, ParsedMessage | None]:
    """Return the tokens of one entry, with its reading if it is a message."""
    kind = opened.session.kinds[seq]
    if kind in MESSAGE_KINDS:
        reading = opened.dialect.reading(line)
        return (0 if reading is None else table.estimator.message(reading)), reading
    compaction = seq if kind == Kind.COMPACTION else 0
    lone = [context_line(opened, seq, line, compaction)] if line else []
    return _estimate(table, opened, lone), None


def _estimate(table: _Table, opened: OpenSession, lines: Sequence[ContextLine]) -> int:
    """Return the tokens of the messages that these lines make together."""
    messages = opened.dialect.context(lines)
    readings = (opened.dialect.read(message.body) for message in messages)
    return sum(table.estimator.message(reading) for reading in readings if reading is not None)


def _lines(opened: OpenSession, seqs: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that add to a context, read a chunk at a time; b"" for all other lines."""
    kinds = opened.session.kinds
    for chunk in chunks(opened.journal, seqs):
        said = [seq for seq in chunk if kinds[seq] in CONTEXT_KINDS or kinds[seq] in BEGINS]
        lines = dict(zip(said, opened.journal.read_many(said), strict=True))
        for seq in chunk:
            yield seq, lines.get(seq, b"")


def _bytes(opened: OpenSession, seqs: Iterable[int]) -> int:
    """Return the size of those lines among these that would be read."""
    kinds, line_bytes = opened.session.kinds, opened.journal.line_bytes
    return sum(
        line_bytes(seq) for seq in seqs if kinds[seq] in CONTEXT_KINDS or kinds[seq] in BEGINS
    )
