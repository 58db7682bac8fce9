"""Two connections that ask for all they may, and one that makes ordinary calls beside them.

Law: no ordinary call is refused, and each is answered within a bound, whatever the two ask for.
"""

from __future__ import annotations

import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from sessiond.journal.profile.layout import Layout
from tests.crowd.cast import Broken, Watcher, open_socket
from tests.kit.sessions import entry, native_file
from tests.processes.harness.daemon import Daemon, running

__all__ = ["GREEDY", "crowd_out"]

SESSIONS: Final = 700
SHARED: Final = "session-shared"
LONG_ENTRIES: Final = 400
ANSWER_SECONDS: Final = 30.0
_AFTER: Final = {"seq": 0}
_USER: Final = {"role": "user", "content": "x"}
_Calls = Iterator[tuple[str, dict[str, Any]]]


def _of_all(method: str, **params: Any) -> Callable[[list[str]], _Calls]:
    """Return what asks for each session in turn."""

    def calls(names: list[str]) -> _Calls:
        for name in names:
            yield method, {"session_id": name, **params}

    return calls


def _again(method: str, **params: Any) -> Callable[[list[str]], _Calls]:
    """Return what asks the same again and again."""

    def calls(names: list[str]) -> _Calls:
        for _ in names:
            yield method, params

    return calls


def _heads(names: list[str]) -> _Calls:
    for number, _ in enumerate(names):
        params = {"session_id": SHARED, "head": f"h{number}", "ttl_ms": 600_000}
        yield "session/acquire", params


def _waits(names: list[str]) -> _Calls:
    for _ in names:
        params = {"session_id": SHARED, "head": "h0", "ttl_ms": 600_000, "wait_ms": 600_000}
        yield "session/acquire", params


GREEDY: Final[Mapping[str, Callable[[list[str]], _Calls]]] = {
    "watch": _of_all("subscribe", after=_AFTER),
    "be present": _of_all("session/presence", state="here"),
    "lease": _of_all("session/acquire", ttl_ms=600_000),
    "lease heads": _heads,
    "wait for leases": _waits,
    "append": _of_all("append", message=_USER),
    "open": _of_all("session/get"),
    "read": _of_all("session/stats"),
    "read entries": _of_all("session/entries", limit=10_000),
    "verify": _of_all("session/verify"),
    "search": _again("session/search", query="x"),
    "list": _again("session/list"),
    "list the trash": _again("session/trash"),
    "queue": _again("session/queue", session_id=SHARED, kind="steer", data=_USER),
    "create": _again("session/create", cwd="/p", persist="immediate"),
}


class _Greedy(Struct):
    """A greedy connection: what it asks for, and whether it reads the answers."""

    connection: socket.socket
    requests: bytes
    is_read: bool


def crowd_out(seed: int, rounds: int = 12) -> tuple[list[str], float]:
    """Make ordinary calls beside two greedy connections. Raises Broken for a call that is refused or late.

    Return what the two asked for, and the seconds of the slowest ordinary call.
    """
    chance = random.Random(seed)
    asked = [chance.choice([*GREEDY]) for _ in range(2)]
    if seed == 0:
        asked = ["watch", "watch"]
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        place = Path(folder)
        names = _put(Layout(place / "data"), chance)
        with running(Daemon(place / "s", place / "data")) as daemon, ExitStack() as stack:
            daemon.connect().close()
            # The first ones are left to the ordinary calls, which find none of these open.
            own, taken = names[:rounds], names[rounds:]
            other = stack.enter_context(Watcher(daemon.socket_path, 0))
            _ask(other, "session/create", cwd="/p", session_id=SHARED)
            reads = [seed == 0 or chance.random() < 0.5 for _ in range(2)]
            greedy: list[_Greedy] = []
            for one, part, is_read in zip(asked, (taken[:350], taken[350:]), reads, strict=True):
                calls = enumerate(GREEDY[one](part * chance.choice([1, 3])))
                connection = stack.enter_context(open_socket(daemon.socket_path))
                greedy.append(_Greedy(connection, _lines(calls), is_read))
            _send(greedy)
            slowest = [_ordinary(other, name) for name in own[: rounds // 2]]
            _let_settle(other)
            # What was refused while much was asked for is asked for again.
            _send(greedy)
            _let_settle(other)
            slowest += [_ordinary(other, name) for name in own[rounds // 2 :]]
            return asked, max(slowest)


def _lines(calls: Iterable[tuple[int, tuple[str, dict[str, Any]]]]) -> bytes:
    requests = ({"id": at, "method": name, "params": params} for at, (name, params) in calls)
    return b"".join(msgspec.json.encode(one) + b"\n" for one in requests)


def _send(greedy: Iterable[_Greedy]) -> None:
    """Send what the daemon takes, which may have stopped to read. Read what comes, if the connection reads."""
    for one in greedy:
        one.connection.settimeout(0.5)
        with suppress(TimeoutError):
            one.connection.sendall(one.requests)
            while one.is_read and one.connection.recv(1 << 18):
                pass


def _let_settle(other: Watcher) -> None:
    """Wait until the daemon opens no more sessions for the greedy connections, for a while at most."""
    before = -1
    for _ in range(40):
        stats = msgspec.json.decode(other.ask("server/stats"))
        if len(stats["sessions"]) == before:
            return
        before = len(stats["sessions"])
        time.sleep(0.5)


def _put(layout: Layout, chance: random.Random) -> list[str]:
    """Put session files on the disk, some of them long; return their names in any order."""
    layout.sessions.mkdir(parents=True, mode=0o700)
    short = [entry("n1")]
    long = [entry(f"n{number}", "x" * 2000) for number in range(1, LONG_ENTRIES)]
    names = [f"session-{number:03}" for number in range(SESSIONS)]
    for number, name in enumerate(names):
        path = layout.session_path(name, "2026-01-01T00-00-00-000000")
        path.write_bytes(native_file(long if number % 10 == 9 else short, name))
        path.chmod(0o600)
    chance.shuffle(names)
    return names


def _ordinary(other: Watcher, name: str) -> float:
    """Make one round of ordinary calls; return the seconds of the slowest."""
    return max(
        _ask(other, "append", session_id=name, message=_USER),
        _ask(other, "append", session_id=name, message=_USER),
        _ask(other, "append", session_id=SHARED, message=_USER),
        _ask(other, "subscribe", session_id=name),
        _ask(other, "session/presence", session_id=name, state="here"),
        _ask(other, "session/acquire", session_id=name, ttl_ms=60_000),
        _ask(other, "session/entries", session_id=name),
        _ask(other, "session/stats", session_id=name),
        _ask(other, "session/create", cwd="/p"),
        _ask(other, "session/list", limit=10),
        _ask(other, "session/search", query="nothing"),
        _ask(other, "state/set", namespace="n", key=name, value=1),
        _ask(other, "state/get", namespace="n", key=name),
        _ask(other, "unsubscribe", session_id=name),
    )


def _ask(other: Watcher, method: str, **params: Any) -> float:
    """Make an ordinary call; return how long it took."""
    began = time.monotonic()
    other.ask(method, **params)
    seconds = time.monotonic() - began
    if seconds > ANSWER_SECONDS:
        raise Broken(f"{method} took {seconds:.1f} s")
    return seconds
