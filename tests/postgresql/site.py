"""A schema of a server, and daemons on machines of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessiond.service.database.database import SessionDatabase
from tests.postgresql.cluster import LISTENERS, Cluster
from tests.service.one_database.site import SPOILT_ID, Site

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

_LAST = (
    "(number, seq) = (SELECT number, max(seq) FROM lines GROUP BY number ORDER BY number LIMIT 1)"
)


def _literal(value: Any) -> str:
    """Return a value as SQL spells it."""
    if isinstance(value, bytes):
        return rf"'\x{value.hex()}'::bytea"
    return f"'{value}'" if isinstance(value, str) else str(value)


class PostgresqlSite(Site):
    """A schema of a server, and daemons on machines of their own."""

    def __init__(
        self,
        home: Path,
        connect: Callable[[], PostgresqlDatabase],
        cluster: Cluster,
        schema: str,
    ) -> None:
        super().__init__(home)
        self._connect = connect
        self._cluster = cluster
        self._schema = schema

    def connect(self) -> SessionDatabase:
        """Return a connection of one more daemon."""
        return self._connect()

    @property
    def listeners(self) -> int:
        """Number of daemons that hear rings."""
        ((count,),) = self._cluster.sql(
            f"SELECT count(*) {LISTENERS} AND ((classid::bigint << 32) | objid::bigint)"
            f" = hashtextextended('{self._schema}', 1)"
        )
        return int(count)

    def age(self) -> None:
        """Let two days pass behind the last write to each session."""
        self._cluster.sql(
            f"UPDATE {self._schema}.sessions SET written_at = written_at - interval '2 days'"
        )

    def silence_daemons(self) -> None:
        """Let an hour pass behind the last note of each daemon."""
        self._cluster.sql(
            f"UPDATE {self._schema}.daemons SET noted_at = noted_at - interval '1 hour'"
        )

    def forget_open_notes(self) -> None:
        """Forget which sessions the daemons have open."""
        self._cluster.sql(f"UPDATE {self._schema}.daemons SET open = '{{}}'")

    def spoil_line(self, number: int) -> None:
        """Change the last line of a session to one that does not parse, as a person could."""
        spoilt = _literal(b'{"type":"message","id":')
        self._cluster.sql(
            f"SET search_path TO {self._schema}; UPDATE lines SET line = {spoilt}"
            f" WHERE number = {number} AND seq ="
            f" (SELECT max(seq) FROM lines WHERE number = {number})"
        )

    def remember(self) -> None:
        """Keep the state of the database."""
        self._cluster.sql(
            f"SET search_path TO {self._schema}; CREATE TABLE kept_lines AS TABLE lines;"
            " CREATE TABLE kept AS TABLE sessions"
        )

    def bring_back(self, elsewhere: bool = False) -> None:
        """Bring the database back to the state that was kept, or move that state to another server."""
        self._cluster.sql(
            f"SET search_path TO {self._schema}; BEGIN;"
            " DELETE FROM lines; INSERT INTO lines TABLE kept_lines;"
            " DELETE FROM sessions; INSERT INTO sessions OVERRIDING SYSTEM VALUE TABLE kept;"
            " SELECT setval(pg_get_serial_sequence('sessions', 'number'), max(number)) FROM kept;"
            # A dump of a server that has done more than this one.
            f" UPDATE sessions SET changed = '99999999999' WHERE {elsewhere};"
            " COMMIT"
        )

    def empty_company(self) -> None:
        """Empty the tables of signals and presence, as a crash of the server does."""
        self._cluster.sql(f"SET search_path TO {self._schema}; TRUNCATE senders, signals")

    def lose_signals(self) -> None:
        """Remove all signals, as their time does."""
        self._cluster.sql(f"SET search_path TO {self._schema}; TRUNCATE signals")

    def change_row(self, **values: Any) -> None:
        """Change columns of the row of the first session, as a person could."""
        changes = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
        self._cluster.sql(f"UPDATE {self._schema}.sessions SET {changes} WHERE number = 1")

    def spoil_id(self) -> None:
        """Put bytes that are no text into the id of the first session, as a person could."""
        self._cluster.sql(
            f"UPDATE {self._schema}.sessions SET session_id = '{SPOILT_ID}',"
            " changed = pg_current_xact_id() WHERE number = 1"
        )

    def spoil_presence(self) -> None:
        """Change what the database has of who is present, as a person could."""
        body = _literal(b'{"present":"\xff"}')
        self._cluster.sql(
            f"UPDATE {self._schema}.senders SET body = {body}, presence = presence + 1"
        )

    def remove_row(self) -> None:
        """Remove the row of the first session, as a person could."""
        self._cluster.sql(f"DELETE FROM {self._schema}.sessions WHERE number = 1")

    def line(self, seq: int) -> bytes:
        """Return a line of the first session."""
        ((line,),) = self._cluster.sql(
            f"SELECT encode(line, 'hex') FROM {self._schema}.lines WHERE number = 1 AND seq = {seq}"
        )
        return bytes.fromhex(line)

    def put_line(self, seq: int, line: bytes) -> None:
        """Put another line in the place of one of the first session, as a person could."""
        self._cluster.sql(
            f"UPDATE {self._schema}.lines SET line = {_literal(line)} WHERE number = 1 AND seq = {seq}"
        )

    def remove_line(self, seq: int) -> None:
        """Remove a line of the first session, as a person could."""
        self._cluster.sql(f"DELETE FROM {self._schema}.lines WHERE number = 1 AND seq = {seq}")

    def drop_last_line(self) -> None:
        """Remove a line of the first session, as a person could."""
        self._cluster.sql(f"SET search_path TO {self._schema}; DELETE FROM lines WHERE {_LAST}")

    def change_last_line(self) -> None:
        """Change a line of the first session, as a person could."""
        self._cluster.sql(
            f"SET search_path TO {self._schema}; UPDATE lines SET line = line || ' ' WHERE {_LAST}"
        )
