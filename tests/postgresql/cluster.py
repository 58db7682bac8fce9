"""A cluster of PostgreSQL for tests: made in a folder of its own, on a socket there, and ended."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.kit.patience import soon

__all__ = ["AS_USER", "LISTENERS", "LISTENING", "Cluster", "own", "programs"]

# PostgreSQL refuses to run as root.
_USER: Final = "nobody"
_GROUP: Final = "nogroup"
_IS_ROOT: Final = os.geteuid() == 0
AS_USER: Final[dict[str, Any]] = {"user": _USER, "group": _GROUP} if _IS_ROOT else {}
"""The user of servers that tests start, as `subprocess` is told of one."""
LISTENERS: Final = "FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
"""The locks of the connections on which daemons hear rings."""
LISTENING: Final = f"pid IN (SELECT pid {LISTENERS})"
"""Condition of these connections."""
_SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
}


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest; None without any."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    return None if named is None else Path(named).resolve().parent


def own(folder: Path) -> None:
    """Give a folder to the user of servers."""
    if _IS_ROOT:
        shutil.chown(folder, _USER, _GROUP)


def _run(program: Path, *words: str, folder: Path) -> None:
    """Run a program of PostgreSQL as the user of servers."""
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder, **AS_USER)


def _make_data(bin_folder: Path, data: Path, *more: str) -> None:
    """Make the data of a new server."""
    words = ("-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C", *more)
    _run(bin_folder / "initdb", "-D", str(data), *words, folder=data.parent)


@cache
def _new_data(bin_folder: Path) -> Path:
    """Return the data of a server that has never run, to copy; they are there until the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="sd-pg-new-"))
    atexit.register(shutil.rmtree, folder)
    own(folder)
    _make_data(bin_folder, folder / "data")
    return folder / "data"


class Cluster:
    """One server with its data."""

    def __init__(
        self,
        bin_folder: Path,
        primary: Cluster | None = None,
        *,
        data: Path | None = None,
        log: Path | None = None,
    ) -> None:
        """Make the data of a server: new ones, or a standby's, copied from a running primary.

        `data` and `log` are places for the data and for the write-ahead log, on disks of their own.
        """
        self._bin = bin_folder
        self.folder = Path(tempfile.mkdtemp(prefix="sd-pg-"))
        self._data = data or self.folder / "data"
        self._server: subprocess.Popen[bytes] | None = None
        self._holder: subprocess.Popen[str] | None = None
        own(self.folder)
        if primary is not None:
            source = ("-d", f"host={primary.folder} user=tests")
            self._run("pg_basebackup", *source, "-D", str(self._data), "-R", "-c", "fast")
        elif log is not None:
            # Small segments: one more is begun by few appends.
            _make_data(bin_folder, self._data, "-X", str(log), "--wal-segsize=1")
        else:
            # A copy takes a twentieth of the time.
            subprocess.run(["cp", "-a", _new_data(bin_folder), self._data], check=True)

    def _run(self, program: str, *words: str) -> None:
        _run(self._bin / program, *words, folder=self.folder)

    def dsn(self, database: str = "postgres") -> str:
        """Return the connection string of a database."""
        return f"host={self.folder} user=tests dbname={database}"

    def start(self) -> None:
        """Start the server, and wait until it takes connections.

        A server that ends is started again: a backend of a killed server may still be there, and
        keeps the next server from its memory for a moment.
        """
        self._server = self._begun()
        soon(self._is_ready, self.said)

    def _is_ready(self) -> bool:
        ready = subprocess.run([self._bin / "pg_isready", "-q", "-h", self.folder])
        if ready.returncode and self._server is not None and self._server.poll() is not None:
            self._server = self._begun()
        return not ready.returncode

    def _begun(self) -> subprocess.Popen[bytes]:
        settings = {**_SETTINGS, "unix_socket_directories": str(self.folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._data), *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **AS_USER,
            )

    def said(self) -> str:
        """Return what the server has written to its log."""
        return (self.folder / "log").read_text()

    def standby(self) -> Cluster:
        """Return a standby of this server, not started yet."""
        return Cluster(self._bin, self)

    def follow(self, primary: Cluster) -> None:
        """Wait until this standby shows what the primary has written up to here."""
        ((written,),) = primary.sql("SELECT pg_current_wal_flush_lsn()")
        self.wait_for(f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{written}'")

    def promote(self) -> None:
        """Make this standby a primary, with what the standby has received."""
        self.sql("SELECT pg_promote()")

    def dump(self) -> Path:
        """Write the database into a file."""
        dumped = self.folder / "dumped"
        self._run("pg_dump", "-Fc", "-f", str(dumped), "-d", self.dsn())
        return dumped

    def restore(self, dumped: Path) -> None:
        """Bring the tables of daemons back to what was dumped, in one transaction."""
        again = ("--clean", "--if-exists", "--single-transaction", "-d", self.dsn(), str(dumped))
        self._run("pg_restore", *again)

    def sql(self, statement: str, database: str = "postgres") -> list[list[str]]:
        """Return the rows of a statement, by psql."""
        run = subprocess.run(
            [
                self._bin / "psql",
                "-XAtq",
                "-F",
                "\t",
                "-v",
                "ON_ERROR_STOP=1",
                "-d",
                self.dsn(database),
            ],
            input=statement,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        return [line.split("\t") for line in run.stdout.splitlines()]

    def require_password(self, role: str, password: str) -> None:
        """Make a role that has to say a password."""
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text()}")
        self.sql(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{password}'")
        self.sql("SELECT pg_reload_conf()")

    def configure(self, **settings: str | None) -> None:
        """Change settings of the running server; None brings the first value back."""
        for name, value in settings.items():
            change = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
            self.sql(f"ALTER SYSTEM {change}")
        self.sql("SELECT pg_reload_conf()")
        for name, value in settings.items():
            is_there = "source <> 'configuration file'" if value is None else f"setting = '{value}'"
            self.wait_for(f"SELECT 1 FROM pg_settings WHERE name = '{name}' AND {is_there}")

    def wait_for(self, question: str, rows: int = 1) -> None:
        """Wait until a question has so many rows."""
        soon(lambda: len(self.sql(question)) >= rows, lambda: question)

    @contextmanager
    def holding(self, statement: str) -> Generator[None]:
        """Keep a transaction with this statement open until `let_go`, or until the end of the block."""
        words = [str(self._bin / "psql"), "-XAtq", "-d", self.dsn()]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as psql:
            assert psql.stdin is not None
            assert psql.stdout is not None
            psql.stdin.write(f"BEGIN; {statement}; SELECT 'held';\n")
            psql.stdin.flush()
            while "held" not in psql.stdout.readline():
                pass
            self._holder = psql
            yield
            self.let_go()

    def let_go(self) -> None:
        """End the open transaction."""
        psql, self._holder = self._holder, None
        if psql is not None and psql.stdin is not None:
            psql.stdin.close()
            psql.wait()

    def wait_for_waiters(self, count: int) -> None:
        """Wait until so many statements of daemons wait for a lock."""
        self.wait_for(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'sessiond'"
            " AND wait_event_type = 'Lock'",
            count,
        )

    def backends(self, which: str) -> list[int]:
        """Return the processes of the connections of daemons of which this condition is true."""
        rows = self.sql(
            f"SELECT pid FROM pg_stat_activity WHERE application_name = 'sessiond' AND {which}"
        )
        return [int(pid) for (pid,) in rows]

    def wait_for_backends(self, which: str, count: int = 1) -> list[int]:
        """Wait until so many connections of daemons are as the condition says; return their processes."""

        def enough() -> list[int] | None:
            found = self.backends(which)
            return found if len(found) >= count else None

        return soon(enough, lambda: which)

    def wait_for_end(self, pids: Sequence[int]) -> None:
        """Wait until none of these processes serves a connection."""
        some = ", ".join(map(str, pids))
        there = f"SELECT FROM pg_stat_activity WHERE pid IN ({some})"
        self.wait_for(f"SELECT 1 WHERE NOT EXISTS ({there})")

    def processes(self) -> list[int]:
        """Return all processes of the server, the one that takes connections included."""
        assert self._server is not None
        rows = self.sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return [self._server.pid, *(int(pid) for (pid,) in rows)]

    @contextmanager
    def stopped(self, pids: Sequence[int]) -> Generator[None]:
        """Stop processes of the server during the block; their kernel still takes what is sent to them."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def cut_connections(self) -> None:
        """End all connections of daemons, as a network does that forgets them."""
        self.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'sessiond'"
        )

    def kill_backends(self) -> None:
        """Kill one process of a daemon's connection, so that the server ends all and recovers."""
        rows = self.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'sessiond' LIMIT 1"
        )
        for (pid,) in rows:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def kill(self) -> None:
        """Kill the postmaster; the other processes of the server notice and end."""
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    def revive(self) -> None:
        """Start the server again if the server has ended, and wait until it takes connections."""
        soon(self._is_ready, self.said)

    def end(self) -> None:
        """End the server and remove its data."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
        shutil.rmtree(self.folder)

    def silence_bells(self) -> int:
        """End the connections on which daemons hear each other; return how many there were."""
        rows = self.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE application_name = 'sessiond' AND {LISTENING}"
        )
        return len(rows)
