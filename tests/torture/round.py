"""A round: start all actors, let them run, let them finish, and compare their logs with the files.

Law: a round has a folder of its own, which is deleted if there is no fault and kept otherwise.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from tests.kit.link import Refused
from tests.processes.harness.daemon import SESSIOND
from tests.torture.company import CAST, Company, Role
from tests.torture.killer import Killer, Misfortune
from tests.torture.owner import Owner
from tests.torture.raw_port import RawPort, Watch
from tests.torture.records import Act, Log, Sent, read_log
from tests.torture.tally import Tally
from tests.torture.verdict import verdict
from tests.torture.wires import socket_wire

__all__ = ["Outcome", "Round"]

PERSIST: Final = {"s-placed-0": "immediate", "s-draft-00": "on_assistant", "s-memory-0": "never"}


class Outcome(Struct, frozen=True):
    """The outcome of a round."""

    violations: list[str]
    folder: Path
    lines: int


class Round:
    """A round with one seed."""

    def __init__(
        self,
        seed: int,
        befall: Misfortune,
        *,
        cast: Sequence[Role] = CAST,
        where: Path | None = None,
        program: Sequence[str] = (SESSIOND,),
    ) -> None:
        self._seed = seed
        self._befall = befall
        self._cast = cast
        # Short, since a socket's path is: 107 bytes are all the kernel takes.
        self.folder = Path(tempfile.mkdtemp(prefix=f"torture-{seed}-", dir=where))
        self._logs = self.folder / "logs"
        self._logs.mkdir()
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        socket = self.folder / "s"
        self._owner = Owner(socket, home, program)
        self._us = RawPort("us", Log(self._logs / "us.log"), socket_wire(socket), Watch())
        self._company = Company(socket, home, self._logs, list(PERSIST))
        self._violations: list[str] = []

    def run(self, tally: Tally, progress: Callable[[str], None]) -> Outcome:
        """Run the whole round and return its outcome."""
        try:
            files = self._play(progress)
            progress("check")
            logs = sorted(self._logs.glob("*.log"))
            self._violations += verdict((read_log(log) for log in logs), files)
        except AssertionError as failure:
            self._violations.append(str(failure))
            files = {}
        finally:
            self._company.discard()
            self._us.hang_up()
            self._owner.discard()
        for log in self._logs.glob("*.log"):
            tally.add(read_log(log))
        tally.counts["torn tails"] += len(list(self._owner.profile.rglob("*.torn-*")))
        if not self._violations:
            shutil.rmtree(self.folder)
        lines = sum(file.count(b"\n") for file in files.values())
        return Outcome(self._violations, self.folder, lines)

    def _play(self, progress: Callable[[str], None]) -> Mapping[str, bytes]:
        self._owner.ensure()
        for session, persist in PERSIST.items():
            self._owner.ask("session/create", cwd="/p", session_id=session, persist=persist)
        self._company.begin(self._seed, self._cast)
        chance = Random(self._seed)
        log = Log(self._logs / "killer.log")
        self._befall(Killer(self._owner, self._company, log, chance), chance, progress)
        self._rest()
        return self._files()

    # -- coming to rest --------------------------------------------------------------------

    def _rest(self) -> None:
        """End the writers, then the watchers; require that a restart changes no session."""
        self._stop(watchers=False)
        self._us.open()
        for session in PERSIST:
            acts = [Act("session/unarchive", session)]
            acts.append(Act("session/append", session, {}, (Sent("message", f"end of {session}"),)))
            # A session in memory is gone if its daemon is; else it gets a file that can be read.
            acts.append(Act("session/update", session, {"title": "end", "persist": "immediate"}))
            acts.append(Act("session/get", session))
            self._us.exchange(acts)
        self._stop(watchers=True)
        before = self._shown()
        how = Random(self._seed).choice([signal.SIGKILL, signal.SIGTERM])
        self._owner.end(how)
        self._owner.ensure()
        after = self._shown()
        for session in PERSIST:
            if before[session] != after[session]:
                self._violations.append(f"{session} is another one after {how.name}")
        self._us.hang_up()
        self._owner.end(signal.SIGTERM)
        said = self._owner.said()
        if '"bug"' in said:
            self._violations.append(
                f"the daemon logged a bug: {said[said.index('bug') - 200 :][:1000]}"
            )

    def _stop(self, *, watchers: bool) -> None:
        stuck = self._company.finish(watchers=watchers)
        self._violations += [f"{name} did not come to its end" for name in stuck]

    def _shown(self) -> dict[str, Any]:
        """Return what clients see of each session: its facts, and the context of every head."""
        with self._owner.connect() as link:

            def of(session: str) -> Any:
                try:
                    info = link.ask("session/get", session_id=session)["session"]
                except Refused as refused:
                    return refused.kind
                contexts = [
                    link.ask("build_context", session_id=session, head=head["name"])
                    for head in info["heads"]
                ]
                names = ("seq", "heads", "epoch", "title", "message_total", "entry_count")
                etags = [(one["etag"], one["sources"]) for one in contexts]
                return [info[name] for name in names], etags

            return {session: of(session) for session in PERSIST}

    def _files(self) -> Mapping[str, bytes]:
        """Return the file of each session that has one."""
        found: dict[str, bytes] = {}
        for session, persist in PERSIST.items():
            paths = [
                path
                for folder in ("sessions", "pending", "archive")
                for path in (self._owner.profile / folder).glob(f"*{session}.jsonl")
            ]
            if len(paths) == 1:
                found[session] = paths[0].read_bytes()
            elif paths or persist != "never":
                self._violations.append(f"{session} has {len(paths)} files")
        return found
