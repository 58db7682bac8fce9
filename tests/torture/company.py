"""The client processes of a round and the proxy between some of them and the daemon.

Law: every process started here is ended here, by its own handle. Each has a log of its
own; a watcher that is replaced goes on from the last event in the log of the one before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from tests.kit.patience import PATIENCE_SECONDS
from tests.torture.actor import Cast
from tests.torture.records import Seen, read_log

__all__ = ["CAST", "Company", "Role"]

REPOSITORY: Final = Path(__file__).resolve().parents[2]


class Role(Struct, frozen=True):
    """A role in the company; with `cut` its connections go through the proxy."""

    name: str
    client: str
    part: str
    cut: bool = False
    options: Mapping[str, Any] = {}
    naps: float = 0.0


CAST: Final = (
    Role("raw-a", "raw", "write"),
    Role("raw-b", "raw", "write", cut=True),
    Role("bridge", "stdio", "write"),
    Role("lib", "blocking", "write", cut=True),
    Role("tasks", "tasks", "write"),
    Role("reader", "raw", "read", cut=True),
    Role("looker", "tasks", "read"),
    Role("beside", "file", "beside"),
    Role("watch-raw", "raw", "watch"),
    Role("watch-slow", "raw", "watch", naps=1.5),
    Role("watch-cut", "raw", "watch", cut=True),
    Role("watch-some", "raw", "watch", options={"types": ["message", "compaction", "leaf"]}),
    Role("watch-lib", "blocking", "watch", cut=True),
    Role("watch-main", "blocking", "watch", options={"heads": ["main"]}),
)


class _Member(Struct):
    role: Role
    process: subprocess.Popen[bytes]
    log: Path
    incarnation: int


class Company:
    """All actors of a round."""

    def __init__(self, socket: Path, home: Path, folder: Path, sessions: Sequence[str]) -> None:
        self._socket = socket
        self._cutting = socket.with_name("cut")
        self._home = home
        self._folder = folder
        self._sessions = list(sessions)
        self._members: dict[str, _Member] = {}
        self._proxy: subprocess.Popen[bytes] | None = None
        self._read: dict[Path, int] = {}
        self._answers = 0

    def begin(self, seed: int, cast: Sequence[Role]) -> None:
        """Start the proxy and all actors."""
        words = [str(self._cutting), str(self._socket), str(self._folder / "proxy.log"), str(seed)]
        self._proxy = self._started("tests.torture.proxy", words, "proxy")
        for index, role in enumerate(cast):
            begin = dict.fromkeys(self._sessions, (0, "")) if role.part == "watch" else {}
            self._enter(role, 1, seed + 100 * index, begin)

    def _enter(
        self, role: Role, incarnation: int, seed: int, cursors: dict[str, tuple[int, str]]
    ) -> None:
        name = f"{role.name}.{incarnation}"
        log = self._folder / f"{name}.log"
        cast = Cast(
            name,
            role.client,
            role.part,
            str(self._cutting if role.cut else self._socket),
            str(self._home),
            str(log),
            seed,
            self._sessions,
            dict(role.options),
            cursors,
            role.naps,
        )
        process = self._started("tests.torture.actor", [msgspec.json.encode(cast).decode()], name)
        self._members[role.name] = _Member(role, process, log, incarnation)

    def _started(self, module: str, words: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.err").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=REPOSITORY,
                env={**os.environ, "SESSIOND_HOME": str(self._home)},
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    def answers(self) -> int:
        """Return how many requests of all actors have been answered so far."""
        for log in self._folder.glob("*.log"):
            with log.open("rb") as file:
                file.seek(self._read.get(log, 0))
                new = file.read()
            # A record that is half written is counted when it is whole.
            new = new[: new.rfind(b"\n") + 1]
            self._read[log] = self._read.get(log, 0) + len(new)
            self._answers += new.count(b'{"is":"answered"')
        return self._answers

    def any_name(self, chance: Random) -> str:
        """Return the name of a random actor."""
        return chance.choice(sorted(self._members))

    def send(self, name: str, how: signal.Signals) -> None:
        self._members[name].process.send_signal(how)

    def replace(self, name: str) -> None:
        """Kill an actor and start its next incarnation."""
        member = self._members[name]
        member.process.kill()
        _wait(member.process)
        cursors = self._cursors(member) if member.role.part == "watch" else {}
        self._enter(member.role, member.incarnation + 1, member.incarnation * 7919, cursors)

    def _cursors(self, member: _Member) -> dict[str, tuple[int, str]]:
        """Return the cursors of a watcher, over all its incarnations."""
        found = dict.fromkeys(self._sessions, (0, ""))
        for number in range(1, member.incarnation + 1):
            log = self._folder / f"{member.role.name}.{number}.log"
            for record in read_log(log) if log.exists() else ():
                if isinstance(record, Seen):
                    found[record.session] = (record.seq, record.id)
        return found

    def require_alive(self) -> None:
        """Require that no actor has ended by itself."""
        for name, member in self._members.items():
            code = member.process.poll()
            if code is not None:
                error = member.log.with_suffix(".err").read_text("utf-8")[-2000:]
                raise AssertionError(f"{name} ended with {code}: {error}")

    def finish(self, *, watchers: bool) -> list[str]:
        """End all watchers, or all other actors; return those that had to be killed."""
        members = [one for one in self._members.values() if (one.role.part == "watch") == watchers]
        for member in members:
            assert member.process.stdin is not None
            member.process.stdin.close()
        until = time.monotonic() + PATIENCE_SECONDS
        stuck: list[str] = []
        for member in members:
            try:
                code = member.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
                stuck.append(member.role.name)
            else:
                if code:
                    error = member.log.with_suffix(".err").read_text("utf-8")[-2000:]
                    stuck.append(f"{member.role.name} (ended with {code}: {error})")
            del self._members[member.role.name]
        return stuck

    def discard(self) -> None:
        """Kill all processes that still run."""
        for process in [one.process for one in self._members.values()] + [self._proxy]:
            if process is not None:
                process.kill()
                _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
