"""Numbers, claims, beats and a clock, which the daemons of one schema agree on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sessiond.postgresql.asking import Asking


class DaemonTables(Asking):
    """The tables of daemons in one schema. Safe in any thread; each method raises StorageError."""

    def reserve(self, name: str, least: int, count: int) -> int:
        """Reserve `count` numbers under a name, from `least` on or behind; return the first."""
        values = {"name": name, "least": least, "count": count}
        # Numbers that are reserved twice are left out, which does no harm.
        row = self._asked(
            "reserve numbers",
            lambda each: each.execute(
                "INSERT INTO numbers AS known VALUES (%(name)s, %(least)s + %(count)s)"
                " ON CONFLICT (name) DO UPDATE SET next = greatest(known.next, %(least)s) + %(count)s"
                " RETURNING next - %(count)s",
                values,
            ).fetchone(),
            "change",
        )
        assert row is not None, "an insert or update returns its row"
        return int(row[0])

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        """Let a holder have a piece of work, unless another holder has the work."""
        values = {"work": work.encode(), "holder": holder, "seconds": seconds}
        # A claim that is taken twice is extended.
        row = self._asked(
            "claim work",
            lambda each: each.execute(
                "INSERT INTO claims AS known"
                " VALUES (%(work)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))"
                " ON CONFLICT (work) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at"
                " WHERE known.holder = excluded.holder OR known.ends_at <= clock_timestamp()"
                " RETURNING true",
                values,
            ).fetchone(),
            "change",
        )
        return row is not None

    def end_claim(self, work: str, holder: str) -> None:
        """End the claim of a holder."""
        with self._changing("end a claim") as connection:
            connection.execute(
                "DELETE FROM claims WHERE work = %s AND holder = %s", [work.encode(), holder]
            )

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Count the beats of a daemon up, and note which sessions the daemon has open."""
        with self._changing("tell that this daemon is there", "look") as connection:
            connection.execute(
                "INSERT INTO daemons AS known (daemon, beats, open) VALUES (%(daemon)s, 1, %(open)s)"
                " ON CONFLICT (daemon) DO UPDATE SET beats = known.beats + 1, open = excluded.open,"
                " noted_at = clock_timestamp()",
                {"daemon": daemon, "open": list(open_numbers)},
            )

    def beats(self) -> dict[str, int]:
        """Return the number of beats of each daemon."""
        rows = self._asked(
            "ask which daemons are there",
            lambda each: each.execute("SELECT daemon, beats FROM daemons").fetchall(),
            "look",
        )
        return dict(rows)

    def forget_daemons(self, daemons: Sequence[str]) -> None:
        """Remove the beats of daemons that have ended."""
        with self._changing("forget daemons", "look") as connection:
            connection.execute("DELETE FROM daemons WHERE daemon = ANY(%s)", [list(daemons)])

    def now_ns(self) -> int:
        """Return the time by the database's clock, in nanoseconds since 1970."""
        row = self._asked(
            "ask for the time",
            lambda each: each.execute(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ).fetchone(),
            "look",
        )
        assert row is not None, "a query without a table returns one row"
        return int(row[0]) * 1000
