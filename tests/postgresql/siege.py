"""Several real daemons on one real server, while processes of both are killed; and a proof afterwards.

    python -m tests.postgresql.siege --daemons 4 --minutes 10 --seed 7

Writers append at whichever daemon answers, and try an unanswered append again with its id, at another
daemon if need be. Watchers leave a daemon and resume at another one. Holders take a lease by turns, and an
archivist archives a session by turns, while other writers knock at both sessions. Senders send signals, which
subscribers hear. What is proved: `Verdict`, and `Signalling` of signals.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.kit.link import Link, Refused
from tests.kit.patience import paused, soon_answered
from tests.postgresql.cluster import Cluster, programs
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.postgresql.siege_signals import Signalling
from tests.torture import proxy
from tests.torture.records import Log

__all__ = ["Siege", "main"]

SHARED: Final = "the-shared-session"
LEASED: Final = "the-leased-session"
ARCHIVED: Final = "the-archived-session"
SESSIONS: Final = (SHARED, LEASED, ARCHIVED)
TRIES_SECONDS: Final = 120.0
WAIT_MS: Final = 20_000
TTL_MS: Final = 60_000
# What a daemon or a database that was killed a moment ago may answer, and what passes with another try.
PASSING: Final = frozenset({"storage_error", "draining", "overloaded", "lease_held", "cancelled"})
# What a writer is told that knocks at a session of which a client has a lease, or which is archived.
CLOSED: Final = frozenset({"lease_held", "session_archived"})

# A watcher looks up from its connection so often, to see whether the writers have ended.
_LOOK_SECONDS: Final = 0.01

# Threads that go on once the writers have ended.
_TO_THE_END: Final = 6

# Notices that tell of no entry.
_TOLD_TOO: Final = frozenset({"session/synced", "session/closed", "session/compaction"})


class Siege:
    """One run: what is there, and what clients saw."""

    def __init__(self, daemons: int, seed: int, *, cuts: bool = True) -> None:
        found = programs()
        assert found is not None, "PostgreSQL is not installed"
        self.chance = random.Random(seed)
        self.cluster = Cluster(found)
        self.folder = Path(tempfile.mkdtemp(prefix="sd-siege-"))
        host = self.folder if cuts else self.cluster.folder
        self._cuts = cuts
        self.daemons = [
            SharingDaemon(self.folder / f"{number}.sock", self.folder / f"home-{number}", host)
            for number in range(daemons)
        ]
        self.faults: list[str] = []
        self.acknowledged: dict[str, dict[str, int]] = {name: {} for name in SESSIONS}
        self.seen: dict[str, list[tuple[int, str]]] = {}
        self.counts: dict[str, int] = {}
        self._is_over = threading.Event()
        self._guard = threading.Lock()
        self._quiet = threading.Event()
        self._signals = Signalling(SHARED, self.daemons, self.count, self.acknowledged[SHARED])

    # -- what clients do -----------------------------------------------------------------

    def count(self, what: str) -> None:
        """Count something that happened."""
        with self._guard:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fault(self, text: str) -> None:
        """Record a broken promise."""
        with self._guard:
            self.faults.append(text)

    def keep_running(self) -> None:
        """Start daemons that ended because no connection was to be had, as a service manager does."""
        for daemon in self.daemons:
            with suppress(ProcessLookupError):
                if daemon.has_ended:
                    self.count("daemons started again")
                    self._signals.has_ended(daemon)
                    daemon.start()

    def once_answered(
        self,
        chance: random.Random,
        ask: Callable[[Link], Any],
        passing: frozenset[str] = PASSING,
    ) -> Any:
        """Return an answer, asked at one daemon after another until one of them answers."""
        until = time.monotonic() + TRIES_SECONDS
        while True:
            daemon = chance.choice(self.daemons)
            try:
                with Link(daemon.socket_path) as link:
                    return ask(link)
            except Refused as refused:
                if refused.kind not in passing:
                    raise
                self.count(f"refused: {refused.kind}")
            except (OSError, AssertionError):
                self.count("connections lost")
            if time.monotonic() > until:
                raise TimeoutError("no daemon answers")
            paused(chance, 0, 0.2)

    def write(self, name: str, chance: random.Random) -> None:
        """Append until the end, each entry once; at times, read at another daemon what was answered."""
        number = 0
        while not self._is_over.is_set():
            entry_id = f"{name}-{number}"
            number += 1
            said = {"role": "user", "content": f"{entry_id} {'x' * chance.choice([3, 300, 9000])}"}
            entry = {"type": "message", "id": entry_id, "message": said}
            members = {"session_id": SHARED, "entry": entry}
            answer = self.once_answered(chance, partial(_asked, "append", members))
            self.acknowledged[SHARED][entry_id] = answer["entries"][0]["seq"]
            self.count("appends")
            if chance.random() < 0.2:
                named = {"session_id": SHARED, "entry_id": entry_id}
                self.once_answered(chance, partial(_asked, "session/entry", named))
                self.count("reads of another daemon's answer")

    def hold(self, name: str, chance: random.Random) -> None:
        """Take the lease, append under it, and give it back or just leave."""
        turn = 0
        while not self._is_over.is_set():
            turn += 1

            def under_lease(link: Link, turn: int = turn) -> None:
                lease = link.ask(
                    "session/acquire", session_id=LEASED, ttl_ms=TTL_MS, wait_ms=WAIT_MS
                )
                self.count("leases")
                for number in range(chance.randint(1, 6)):
                    entry_id = f"{name}-{turn}-{number}-{lease['epoch']}"
                    message = {"role": "user", "content": entry_id}
                    entry = {"type": "message", "id": entry_id, "message": message}
                    answer = link.ask(
                        "append", session_id=LEASED, entry=entry, lease_id=lease["lease_id"]
                    )
                    self.acknowledged[LEASED][entry_id] = answer["entries"][0]["seq"]
                if chance.random() < 0.5:
                    link.ask("session/release", session_id=LEASED, lease_id=lease["lease_id"])

            with suppress(TimeoutError):
                try:
                    self.once_answered(chance, under_lease)
                except Refused as refused:
                    if refused.kind != "lease_lost":
                        raise
                    self.count("leases lost")

    def knock(self, name: str, chance: random.Random) -> None:
        """Append without a lease until the end, now to the leased session, now to the archived one."""
        number = 0
        while not self._is_over.is_set():
            session_id = chance.choice((LEASED, ARCHIVED))
            entry_id = f"{name}-{number}"
            number += 1
            said = {"role": "user", "content": entry_id}
            members = {
                "session_id": session_id,
                "entry": {"type": "message", "id": entry_id, "message": said},
            }
            self._until_open(session_id, entry_id, chance, members)

    def _until_open(
        self, session_id: str, entry_id: str, chance: random.Random, members: dict[str, Any]
    ) -> None:
        """Append an entry once a session takes it; leave the entry at the end."""
        while not self._is_over.is_set():
            try:
                answer = self.once_answered(
                    chance, partial(_asked, "append", members), passing=PASSING - CLOSED
                )
            except Refused as refused:
                if refused.kind not in CLOSED:
                    raise
                self.count(f"knocked in vain: {refused.kind}")
                paused(chance, 0, 0.05)
            else:
                self.acknowledged[session_id][entry_id] = answer["entries"][0]["seq"]
                self.count("knocked and appended")
                return

    def archive(self, _name: str, chance: random.Random) -> None:
        """Archive a session again and again: nothing lands there until it is brought back."""
        ask = {"session_id": ARCHIVED}
        while not self._is_over.is_set():
            self.once_answered(chance, partial(_asked, "session/archive", ask))
            self.count("archives")
            before = self._seq(ARCHIVED)
            paused(chance, 0, 1)
            after = self._seq(ARCHIVED)
            if before != after:
                self.fault(f"the archived session grew from {before} to {after}")
            self.once_answered(chance, partial(_asked, "session/unarchive", ask))
            paused(chance, 0, 0.5)

    def _seq(self, session_id: str) -> int:
        """Return the seq of a session, once the server answers."""
        question = f"SELECT seq FROM sessiond.sessions WHERE session_id = '{session_id}'"
        # The server may recover from a blow.
        ((seq,),) = soon_answered(
            lambda: self.cluster.sql(question), lambda error: isinstance(error, AssertionError)
        )
        return int(seq)

    def watch(self, name: str, chance: random.Random) -> None:
        """Follow the session to its end, now at this daemon, now at that one."""
        seen = self.seen.setdefault(name, [])

        def follow(link: _Keeping) -> bool:
            after = {"seq": seen[-1][0], "entry_id": seen[-1][1]} if seen else {"seq": 0}
            answer = link.ask_kept("subscribe", session_id=SHARED, after=after, signals=False)
            if "replaced" in answer:
                self.fault(f"{name} at {after} was told {answer['replaced']} at {answer['seq']}")
            for _ in range(chance.randint(1, 400)):
                if self._quiet.is_set() and not link.has_more():
                    answer = link.ask_kept("session/get", session_id=SHARED)
                    self._take(name, seen, link.kept)
                    is_old = "stale_since" in answer.get("_meta", {})
                    if seen and seen[-1][0] >= answer["session"]["seq"] and not is_old:
                        return True
                    continue
                if not link.has_more(_LOOK_SECONDS):
                    continue
                link.kept.append(link.message())
                self._take(name, seen, link.kept)
            return False

        while not self.once_answered(chance, lambda link: follow(_Keeping(link))):
            self.count("resumed subscriptions")

    def send(self, name: str, chance: random.Random) -> None:
        """Send signals until the end."""
        self._signals.send(name, chance, self._is_over)

    def hear(self, name: str, chance: random.Random) -> None:
        """Hear signals to the end."""
        self._signals.hear(name, chance, self._quiet)

    def _take(self, name: str, seen: list[tuple[int, str]], kept: list[dict[str, Any]]) -> None:
        """Note the events that have come."""
        for message in kept:
            if message["method"] == "session/event":
                seen.append((message["params"]["seq"], message["params"]["entry"]["id"]))
            elif message["method"] not in _TOLD_TOO:
                self.fault(f"{name} was told {message['method']}")
        kept.clear()

    # -- what happens to them ----------------------------------------------------------------

    def strike(self) -> None:
        """Kill, stop or cut something."""
        daemon = self.chance.choice(self.daemons)
        what = self.chance.choices(
            ["daemon", "pause", "backend", "connections", "server"], [5, 3, 3, 3, 2]
        )[0]
        self.count(f"struck: {what}")
        if what == "daemon":
            daemon.discard()
            self._signals.has_ended(daemon)
            daemon.start()
        elif what == "pause":
            daemon.signal_and_look(signal.SIGSTOP)
            paused(self.chance, 0.2, 3)
            daemon.signal_and_look(signal.SIGCONT)
        elif what == "server":
            self.cluster.kill()
            self.cluster.start()
        else:
            # The server may recover from an earlier blow.
            with suppress(AssertionError):
                if what == "backend":
                    self.cluster.kill_backends()
                else:
                    self.cluster.cut_connections()

    def run(self, seconds: float) -> None:
        """Begin, strike for so many seconds, let all come to rest, and judge."""
        self.cluster.start()
        through = self._proxied() if self._cuts else None
        try:
            for daemon in self.daemons:
                daemon.start()
            for session_id in SESSIONS:
                members = {"session_id": session_id, "cwd": "/p", "persist": "immediate"}
                self.once_answered(self.chance, partial(_asked, "session/create", members))
            threads = self._begin()
            end = time.monotonic() + seconds
            while time.monotonic() < end and not self.faults:
                paused(self.chance, 0.5, 3)
                self.keep_running()
                self.strike()
            self._rest(threads)
            self.faults += Verdict(self).faults() + self._signals.faults()
        finally:
            for daemon in self.daemons:
                daemon.discard()
            if through is not None:
                through.close()
            self.cluster.end()

    def _proxied(self) -> Any:
        name = ".s.PGSQL.5432"
        log = Log(self.folder / "proxy.log")
        return proxy.begin(
            self.folder / name, self.cluster.folder / name, self.chance.random(), log
        )

    def _begin(self) -> list[threading.Thread]:
        roles: list[tuple[Callable[[str, random.Random], None], str]] = [
            *((self.write, f"w{number}") for number in range(8)),
            *((self.hold, f"h{number}") for number in range(3)),
            *((self.knock, f"k{number}") for number in range(2)),
            (self.archive, "a0"),
            *((self.send, f"g{number}") for number in range(2)),
            *((self.watch, f"s{number}") for number in range(_TO_THE_END - 2)),
            *((self.hear, f"l{number}") for number in range(2)),
        ]
        threads: list[threading.Thread] = []
        for act, name in roles:
            chance = random.Random(self.chance.random())
            one = threading.Thread(target=self._guarded, args=(act, name, chance), daemon=True)
            one.start()
            threads.append(one)
        return threads

    def _guarded(self, act: Callable[..., None], name: str, chance: random.Random) -> None:
        try:
            act(name, chance)
        except BaseException as error:  # noqa: BLE001 - the verdict tells
            self.fault(f"{name} ended: {error!r} {getattr(error, 'data', '')}")

    def _rest(self, threads: list[threading.Thread]) -> None:
        """End the writers, then let the watchers see all."""
        self._is_over.set()
        for at, thread in enumerate(threads):
            if at == len(threads) - _TO_THE_END:
                self._quiet.set()
            thread.join(TRIES_SECONDS + 60)
            if thread.is_alive():
                self.fault(f"thread {at} does not come to its end")


def _asked(method: str, members: Mapping[str, Any], link: Link) -> Any:
    return link.ask(method, **members)


class _Keeping:
    """A connection that keeps the notifications which come between answers."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.kept: list[dict[str, Any]] = []
        self.has_more = link.has_more
        self.message = link.message
        self._last_id = 0

    def ask_kept(self, method: str, **params: Any) -> Any:
        """Return the result of a call. Raises Refused."""
        self._last_id += 1
        body = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._link.send(msgspec.json.encode(body) + b"\n")
        while "method" in (message := self._link.message()):
            self.kept.append(message)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]


class Verdict:
    """Verdict of the rows of the database, read by psql."""

    def __init__(self, siege: Siege) -> None:
        self._siege = siege

    def faults(self) -> list[str]:
        """Return each broken promise in words."""
        of_sessions = [fault for name in SESSIONS for fault in self._of(name)]
        return [*of_sessions, *self._of_watchers(), *self._of_leases()]

    def _lines(self, session_id: str) -> list[bytes]:
        rows = self._siege.cluster.sql(
            "SELECT encode(line, 'hex') FROM sessiond.lines JOIN sessiond.sessions USING (number)"
            f" WHERE session_id = '{session_id}' ORDER BY lines.seq"
        )
        return [bytes.fromhex(line) for (line,) in rows]

    def _ids(self, session_id: str) -> list[str]:
        return [msgspec.json.decode(line).get("id", "") for line in self._lines(session_id)]

    def _of(self, session_id: str) -> list[str]:
        lines = self._lines(session_id)
        faults: list[str] = []
        ((seq, digest),) = self._siege.cluster.sql(
            "SELECT seq, encode(digest, 'hex') FROM sessiond.sessions"
            f" WHERE session_id = '{session_id}'"
        )
        chained = b""
        for line in lines:
            chained = sha256(chained + line).digest()
        if (int(seq), digest) != (len(lines) - 1, chained.hex()):
            faults.append(f"{session_id}: the row counts {seq}, and there are {len(lines)} lines")
        places: dict[str, list[int]] = {}
        for at, entry_id in enumerate(self._ids(session_id)):
            places.setdefault(entry_id, []).append(at)
        faults += [
            f"{name} is stored {len(at)} times" for name, at in places.items() if len(at) > 1
        ]
        for name, at_seq in self._siege.acknowledged[session_id].items():
            if places.get(name) != [at_seq]:
                faults.append(f"{name}, acknowledged at {at_seq}, is at {places.get(name)}")
        last: dict[str, int] = {}
        for name in self._ids(session_id):
            writer, _, number = name.partition("-")
            if session_id == SHARED and writer.startswith("w"):
                if int(number) <= last.get(writer, -1):
                    faults.append(f"{name} stands behind number {last[writer]}")
                last[writer] = int(number)
        return faults

    def _of_watchers(self) -> list[str]:
        stored = [(at, name) for at, name in enumerate(self._ids(SHARED))][1:]
        return [
            f"{watcher} saw {len(seen)} of {len(stored)} events, or others: {_first_other(seen, stored)}"
            for watcher, seen in self._siege.seen.items()
            if seen != stored
        ]

    def _of_leases(self) -> list[str]:
        faults: list[str] = []
        last, held, ended = 0, "", set[str]()
        for name in self._ids(LEASED)[1:]:
            ended.add(held)
            if name.startswith("k"):
                held = ""
                continue
            holder, turn, _, epoch = name.split("-")
            if int(epoch) < last:
                faults.append("a lease counted behind a later one")
            last, lease = int(epoch), f"{holder}-{turn}-{epoch}"
            if lease != held and lease in ended:
                faults.append(f"an entry landed between those of the lease {lease}")
            held = lease
        return faults


def _first_other(seen: list[tuple[int, str]], stored: list[tuple[int, str]]) -> str:
    """Return the first place at which what was seen is not what is stored."""
    for at, (one, other) in enumerate(zip_longest(seen, stored)):
        if one != other:
            return f"number {at} is {one} in place of {other}, behind {seen[max(0, at - 2) : at]}"
    return "none"


def main(words: list[str] | None = None) -> int:
    """Run a siege; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="siege", description="attack daemons on one database")
    parser.add_argument("--daemons", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(words)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    sys.stderr.write(f"siege: SEED={seed}\n")
    siege = Siege(options.daemons, seed)
    siege.run(options.minutes * 60)
    for what, number in sorted(siege.counts.items()):
        sys.stdout.write(f"{what:36}{number:>9}\n")
    for text in siege.faults[:25]:
        sys.stdout.write(f"VIOLATION: {text}\n")
    sys.stdout.write(f"{'violations':36}{len(siege.faults):>9}\n")
    if siege.faults:
        sys.stdout.write(f"logs are in {siege.folder}\n")
    return 1 if siege.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
