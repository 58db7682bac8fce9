"""A lying daemon: a client may get a mutated answer, half an answer, or none.

Law: a call ends with a result or with an error that the client documents. A subscription ends when
its client is closed. No daemon can make a client raise any other error.
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import anyio

from sessiond_client import SessiondClientError, connect, connect_blocking
from tests.fuzz.mutations import mutated_body
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["ask_anyio", "ask_blocking", "lying"]

_TRANSCRIPTS: Final = Path(__file__).parent.parent / "protocol" / "transcripts"
_CALL_SECONDS: Final = 0.05
_EVENTS: Final = 20
_TOLD: Final = re.compile(r"^[a-z]*< (.*(?:\n    .*)*)", re.MULTILINE)


@cache
def answers() -> tuple[bytes, ...]:
    """Return every message of a daemon in the transcripts, each once."""
    pages = "\n".join(page.read_text("utf-8") for page in sorted(_TRANSCRIPTS.glob("*.txt")))
    told = {re.sub(r"\n    ", "", found[1]) for found in _TOLD.finditer(pages)}
    return tuple(sorted(one.encode() for one in told if one.startswith(("{", "["))))


def _lies(request_id: Any, dice: random.Random) -> Iterator[bytes]:
    """Yield a few lines to send instead of the answer."""
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        line = dice.choice(answers())
        if dice.random() < 0.8:
            # Give the line the id that the client waits for.
            line = re.sub(rb'"id":(\d+|"[^"]*"|null)', b'"id":%d' % request_id, line, count=1)
        if dice.random() < 0.7:
            line = mutated_body(line, dice, list(answers()))
        yield line + b"\n"


def _serve(peer: socket.socket, dice: random.Random) -> None:
    """Serve one connection with a lie for each request, for a random time."""
    with peer, peer.makefile("rb") as lines, suppress(OSError):
        for line in lines:
            turn = dice.random()
            if turn < 0.05:
                return
            if turn < 0.1:
                continue
            for lie in _lies(json.loads(line).get("id", 0), dice):
                if dice.random() < 0.03:
                    peer.sendall(lie[: dice.randrange(len(lie))])
                    return
                peer.sendall(lie)


@contextmanager
def lying(path: Path, seed: int) -> Iterator[None]:
    """Run a lying daemon that listens at a path."""
    threads: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    dice = random.Random(f"{seed} {len(threads)}")
                    threads.append(threading.Thread(target=_serve, args=(peer, dice), daemon=True))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE_SECONDS)
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a client left its connection open"


# Each by its name, with what it needs: typed results are read by types of their own.
_CALLS: Final[tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]] = (
    ("create", (), {"cwd": "/p"}),
    ("append", ("session-a",), {"message": {"role": "user", "content": "x"}}),
    ("entries", ("session-a",), {}),
    ("entry", ("session-a", "e1"), {}),
    ("path", ("session-a",), {}),
    ("tree", ("session-a",), {}),
    ("build_context", ("session-a",), {}),
    ("heads", ("session-a",), {}),
    ("labels", ("session-a",), {}),
    ("get", ("session-a",), {}),
    ("list", (), {}),
    ("search", ("words",), {}),
    ("verify", ("session-a",), {}),
    ("acquire", ("session-a",), {"ttl_ms": 1000}),
    ("branch", ("session-a", "e1"), {}),
    ("call", ("server/ping",), {}),
    ("call_raw", ("server/info",), {}),
)


def _fault(name: str, error: BaseException) -> str:
    return f"{name} raised {error!r:.500}"


def ask_blocking(path: Path, seed: int, calls: int) -> list[str]:
    """Ask a liar through the blocking client; gives what came out that should not."""
    dice = random.Random(seed)
    found: list[str] = []

    def attempt(name: str, do: Callable[[], object]) -> None:
        try:
            do()
        except SessiondClientError:
            return
        except BaseException as error:  # noqa: BLE001 - that nothing else comes out is what is tested
            found.append(_fault(name, error))

    def ask() -> None:
        with connect_blocking(path, timeout=_CALL_SECONDS, connect_timeout=1) as client:
            for _ in range(calls):
                name, args, params = dice.choice(_CALLS)
                attempt(name, partial(getattr(client, name), *args, **params))
            watching = threading.Thread(target=attempt, args=("subscribe", lambda: watch(client)))
            watching.start()
            watching.join(_CALL_SECONDS)
        watching.join(PATIENCE_SECONDS)
        if watching.is_alive():
            found.append("a subscription outlived its client")

    def watch(client: Any) -> None:
        with client.subscribe("session-a") as events:
            for _ in zip(range(_EVENTS), events, strict=False):
                pass

    attempt("connect", ask)
    return found


def ask_anyio(path: Path, seed: int, calls: int) -> list[str]:
    """Make random calls to a lying daemon through the anyio client; return the faults."""
    dice = random.Random(seed)
    found: list[str] = []

    async def attempt(name: str, do: Callable[[], Any]) -> None:
        try:
            await do()
        except SessiondClientError:
            return
        except Exception as error:  # noqa: BLE001 - that nothing else comes out is what is tested
            found.append(_fault(name, error))

    async def ask() -> None:
        async with connect(path, timeout=_CALL_SECONDS, connect_timeout=1) as client:
            for _ in range(calls):
                name, args, params = dice.choice(_CALLS)
                await attempt(name, partial(getattr(client, name), *args, **params))
            with anyio.move_on_after(_CALL_SECONDS):
                await attempt("subscribe", lambda: watch(client))

    async def watch(client: Any) -> None:
        async with client.subscribe("session-a") as events:
            count = 0
            async for _ in events:
                count += 1
                if count == _EVENTS:
                    return

    async def bounded() -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            await attempt("connect", ask)

    anyio.run(bounded)
    return found
