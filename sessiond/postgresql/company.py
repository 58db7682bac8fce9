"""Signals and senders on PostgreSQL, in tables that are not logged: a crash of the server empties both.

Law: no statement holds rows of one table while it waits for rows of the other table in another order than
`_CHANGE` does: senders first, then signals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from sessiond.limits import SENDER_KEPT_SECONDS, SIGNALS_KEPT_SECONDS, SIGNALS_READ_BYTES_MAX
from sessiond.postgresql.patience import PatientConnection
from sessiond.service.database.company_rows import (
    Sender,
    SenderChange,
    StoredPresence,
    StoredSignal,
)

T = TypeVar("T")

SENDERS: Final = (
    "(SELECT string_agg(concat_ws(' ', name, daemon, ordinal, presence, is_open::int), ',' ORDER BY name)"
    " FROM senders WHERE senders.number = sessions.number)"
)
"""Expression for the senders of a session, beside the columns of its row."""

# One statement, so one round trip. A change that comes late finds a later turn, and does nothing.
_CHANGE: Final = """
WITH known AS (
    INSERT INTO senders AS known (number, name, daemon, turn, ordinal, presence, body, is_open)
    VALUES (
        %(number)s, %(name)s, %(daemon)s, %(turn)s, %(ordinal)s,
        CASE WHEN %(is_shown)s THEN %(presence)s ELSE 0 END, %(body)s, %(is_open)s
    )
    ON CONFLICT (number, name) DO UPDATE SET turn = excluded.turn, ordinal = excluded.ordinal,
        presence = CASE WHEN %(is_shown)s THEN excluded.presence ELSE known.presence END,
        body = CASE WHEN %(is_shown)s THEN excluded.body ELSE known.body END,
        is_open = excluded.is_open, changed_at = clock_timestamp()
    WHERE known.turn < excluded.turn
    RETURNING number, name
),
gone AS (
    DELETE FROM signals USING known WHERE signals.number = known.number
        AND signals.sender = known.name AND signals.ordinal < %(kept_from)s
)
INSERT INTO signals (number, sender, ordinal, after_seq, body)
SELECT known.number, known.name, given.ordinal, given.after_seq, given.body
FROM known, unnest(%(ordinals)s::bigint[], %(after_seqs)s::bigint[], %(bodies)b::bytea[])
    AS given (ordinal, after_seq, body)
ON CONFLICT DO NOTHING
"""
_SIGNALS: Final = """
SELECT sender, ordinal, after_seq, body FROM (
    SELECT signals.*, sum(octet_length(body)) OVER (ORDER BY written_at DESC, ordinal DESC) AS bytes
    FROM unnest(%(senders)s::text[], %(firsts)s::bigint[], %(lasts)s::bigint[])
        AS wanted (name, first, last)
    JOIN signals ON number = %(number)s AND sender = wanted.name
        AND ordinal > wanted.first AND ordinal <= wanted.last
    WHERE written_at > clock_timestamp() - make_interval(secs => %(seconds)s)
) AS found WHERE bytes <= %(bytes)s
"""

_CLEAN: Final = (
    """
DELETE FROM signals WHERE written_at <= clock_timestamp() - make_interval(secs => %(signals)s)
""",
    """
DELETE FROM senders
WHERE NOT is_open AND changed_at <= clock_timestamp() - make_interval(secs => %(senders)s)
""",
    """
UPDATE senders SET is_open = false, changed_at = clock_timestamp()
WHERE is_open AND changed_at <= clock_timestamp() - make_interval(secs => %(senders)s)
    AND NOT EXISTS (
        SELECT FROM daemons WHERE daemons.daemon = senders.daemon
            AND noted_at > clock_timestamp() - make_interval(secs => %(senders)s)
    )
""",
    # A daemon that is there, and has something to tell, makes its row again.
    """
DELETE FROM daemons WHERE noted_at <= clock_timestamp() - make_interval(secs => %(senders)s)
""",
)


class Ask(Protocol):
    """Asker of a question, which is asked a second time if the connection ends. Raises StorageError."""

    def __call__(self, doing: str, ask: Callable[[PatientConnection], T], /) -> T:
        """Return the answer; `doing` completes "could not …"."""
        ...


class PostgresqlCompany:
    """The tables of one schema: the port `CompanyRows`. Safe in any thread."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def _do(self, doing: str, statement: str, values: Mapping[str, Any]) -> None:
        self._ask(doing, lambda each: each.execute(statement.encode(), values))

    def change(self, change: SenderChange) -> None:
        """Change a sender and store its signals, unless a later turn was here before."""
        sender = change.sender
        values = {
            "number": change.number,
            "name": sender.name,
            "daemon": sender.daemon,
            "turn": change.turn,
            "ordinal": sender.ordinal,
            "presence": sender.presence,
            "is_shown": change.body is not None,
            "body": change.body or b"",
            "is_open": sender.is_open,
            "kept_from": change.kept_from,
            "ordinals": [one.ordinal for one in change.signals],
            "after_seqs": [one.after_seq for one in change.signals],
            "bodies": [one.body for one in change.signals],
        }
        self._do("pass signals on", _CHANGE, values)

    def signals(self, number: int, wanted: Mapping[str, tuple[int, int]]) -> list[StoredSignal]:
        """Return the signals of senders behind the first and up to the second ordinal."""
        values = {
            "number": number,
            "senders": [*wanted],
            "firsts": [first for first, _ in wanted.values()],
            "lasts": [last for _, last in wanted.values()],
            "seconds": SIGNALS_KEPT_SECONDS,
            "bytes": SIGNALS_READ_BYTES_MAX,
        }
        rows = self._ask(
            "read signals", lambda each: each.execute(_SIGNALS, values, binary=True).fetchall()
        )
        return [StoredSignal(sender, ordinal, seq, body) for sender, ordinal, seq, body in rows]

    def presences(self, number: int, senders: Sequence[str]) -> list[StoredPresence]:
        """Return the presence at senders; unknown senders are left out."""
        rows = self._ask(
            "read who is present",
            lambda each: each.execute(
                "SELECT name, presence, body FROM senders WHERE number = %s AND name = ANY(%s)",
                [number, list(senders)],
                binary=True,
            ).fetchall(),
        )
        return [StoredPresence(*row) for row in rows]

    def end_of_daemons(self, daemons: Sequence[str]) -> None:
        """End all senders of daemons that have ended."""
        self._do(
            "forget who was present",
            "UPDATE senders SET is_open = false, changed_at = clock_timestamp()"
            " WHERE daemon = ANY(%(daemons)s) AND is_open",
            {"daemons": list(daemons)},
        )

    def clean(self) -> None:
        """Remove signals after SIGNALS_KEPT_SECONDS; ended senders, and silent daemons, after SENDER_KEPT_SECONDS."""
        values = {"signals": SIGNALS_KEPT_SECONDS, "senders": SENDER_KEPT_SECONDS}
        for statement in _CLEAN:
            self._do("remove old signals", statement, values)


def senders_of(text: str | None) -> tuple[Sender, ...]:
    """Return the senders that `SENDERS` has found; none stands for a row that a person has changed into another."""
    found = map(_sender, text.split(",")) if text else ()
    return tuple(sender for sender in found if sender is not None)


def _sender(text: str) -> Sender | None:
    """Return a sender; None for a name, or that of a daemon, that no daemon makes."""
    try:
        name, daemon, ordinal, presence, is_open = text.split(" ")
        return Sender(name, daemon, int(ordinal), int(presence), is_open == "1")
    except ValueError:
        return None
