"""The attacks as rounds of a campaign: each takes a seed and yields the faults it finds.

Law: a round owns its daemon. The daemon's log must have no bug and no message content, and the
daemon must end properly. A witness that appends beside the attackers must lose no message.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Final

from sessiond_client import connect_blocking
from tests.fuzz.deltas import followed
from tests.fuzz.files import mutated_file
from tests.fuzz.frames import attacks, besiege
from tests.fuzz.inspection import inspected
from tests.fuzz.intrusion import intruded
from tests.fuzz.liar import ask_anyio, ask_blocking, lying
from tests.fuzz.plain import Plain
from tests.fuzz.profile import damage, examined, fill, still_there
from tests.fuzz.properties import properties
from tests.fuzz.readers import edited, read
from tests.fuzz.rewriting import rewritten
from tests.fuzz.walk import walk
from tests.processes.harness.daemon import Daemon, running

__all__ = [
    "ROUNDS",
    "Round",
    "deltas",
    "files",
    "frames",
    "intrusions",
    "lies",
    "profiles",
    "walks",
]

Round = Callable[[Path, int, int], Iterator[str]]
"""A round in a folder of its own, with a seed and a size."""

_WITNESS: Final = "witness-session"
_TOGETHER: Final = 4
_CALLS_A_LIAR: Final = 10


@contextmanager
def attacked(folder: Path) -> Iterator[Daemon]:
    """Run a daemon that listens; require at the end that it met no bug and ends properly."""
    daemon = Daemon(folder / "s", folder / "data")
    with running(daemon):
        daemon.connect().close()
        yield daemon
        daemon.require_running()


class _Witness:
    """A healthy client that appends, subscribes and counts."""

    def __init__(self, client: Plain) -> None:
        self._client = client
        self._said: list[str] = []
        client.call("session/create", cwd="/p", session_id=_WITNESS, persist="immediate")
        client.call("session/subscribe", session_id=_WITNESS)

    def say(self, text: str) -> Iterator[str]:
        message = {"role": "user", "content": text}
        answer = self._client.call("session/append", session_id=_WITNESS, message=message)
        self._said.append(text)
        if answer.error is not None or answer.result["seq"] != len(self._said):
            yield f"the witness was answered {answer!r}"

    def account(self) -> Iterator[str]:
        told = [one["params"] for one in self._client.told if one["method"] == "session/event"]
        seen = [one["entry"]["message"]["content"] for one in told]
        page = self._client.call("session/entries", session_id=_WITNESS, limit=10_000)
        stored = [row["entry"]["message"]["content"] for row in page.result["entries"]]
        if not self._said == seen == stored:
            yield f"the witness said {len(self._said)}, saw {len(seen)}, and {len(stored)} are stored"
        yield from self._client.faults


def frames(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Send several streams of mutated frames at once, beside a witness; yield the faults."""
    with attacked(folder) as daemon, Plain(daemon.socket_path) as client:
        witness = _Witness(client)
        for at in range(seed, seed + size):
            dice = random.Random(at)
            found = besiege(daemon.socket_path, list(islice(attacks(dice), _TOGETHER)))
            yield from (f"frames, seed {at}: {fault}" for fault in found)
            yield from (f"frames, seed {at}: {fault}" for fault in witness.say(f"said-{at}"))
        yield from witness.account()
        if "said-" in daemon.said():
            yield "the log tells what was said"
    yield from _reopened(folder)


# Any other problem of a line may come from an imported file.
_DAMAGE: Final = frozenset({"bad_line", "torn_tail", "incomplete_atom", "bad_header"})


def _reopened(folder: Path) -> Iterator[str]:
    """Yield a fault for each file that the attackers left and another daemon cannot read."""
    with attacked(folder) as daemon, Plain(daemon.socket_path) as client:
        listed = client.call("session/list", drafts=True, limit=10_000).result
        if listed["unreadable"]:
            yield f"files that cannot be read: {listed['unreadable']}"
        for session in listed["sessions"]:
            found = client.call("session/verify", session_id=session["id"]).result["problems"]
            if _DAMAGE.intersection(problem["kind"] for problem in found):
                yield f"a session that only attackers wrote is damaged: {session['path']}"


def walks(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Walk once over all methods; yield the faults."""
    with attacked(folder) as daemon:
        yield from walk(daemon.socket_path, daemon.profile, folder / "files", seed, size)


def files(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Inspect damaged files in one daemon, one after the other, then list all; yield the faults."""
    with attacked(folder) as daemon, Plain(daemon.socket_path) as client:
        for at in range(seed, seed + size):
            data = mutated_file(random.Random(at))
            found = inspected(client, daemon.profile, f"session-{at}", data)
            yield from (f"files, seed {at}: {fault}" for fault in found)
        with connect_blocking(daemon.socket_path) as reader:
            for at in range(seed, seed + size):
                name = f"2026-01-01T00-00-00-000000_session-{at}.jsonl"
                path, data = daemon.profile / "sessions" / name, mutated_file(random.Random(at))
                path.write_bytes(data)
                found = chain(edited(daemon.socket_path, path, data), read(reader, f"session-{at}"))
                yield from (f"files, seed {at}: {fault}" for fault in found)
        for method, params in (
            ("session/list", {}),
            ("session/search", {"query": "word"}),
            ("catalog/forest", {"scope": "all"}),
            ("session/continue_recent", {}),
            ("retention/run", {"max_age_hours": 1}),
        ):
            answer = client.call_with(method, params)
            if answer.kind not in {None, "session_corrupt"}:
                yield f"files, seeds from {seed}: {method}: {answer!r}"


def intrusions(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Sessions into whose files another program writes."""
    with (
        attacked(folder) as daemon,
        Plain(daemon.socket_path) as writer,
        Plain(daemon.socket_path) as watcher,
    ):
        for at in range(seed, seed + size):
            found = chain(intruded(writer, watcher, daemon.profile, at), rewritten(writer, at))
            yield from (f"intrusions, seed {at}: {fault}" for fault in found)


def deltas(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Sessions whose contexts are asked for again and again, by callers that hold older ones."""
    with attacked(folder) as daemon, Plain(daemon.socket_path) as client:
        for at in range(seed, seed + size):
            found = followed(client, daemon.profile, at)
            yield from (f"deltas, seed {at}: {fault}" for fault in found)


def profiles(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Profiles that were damaged while no daemon ran."""
    for at in range(seed, seed + size):
        inner = folder / str(at)
        inner.mkdir()
        with attacked(inner) as daemon, Plain(daemon.socket_path) as client:
            fill(client)
        damage(daemon.profile, random.Random(at))
        yield from (f"profiles, seed {at}: {fault}" for fault in examined(daemon))
        with attacked(inner) as daemon, Plain(daemon.socket_path) as client:
            yield from (f"profiles, seed {at}: {fault}" for fault in still_there(client))
        shutil.rmtree(inner)


def lies(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Clients of a daemon that lies."""
    for ask in (ask_blocking, ask_anyio):
        for at in range(seed, seed + size):
            path = folder / f"{ask.__name__}-{at}"
            with lying(path, at):
                found = ask(path, at, _CALLS_A_LIAR)
            yield from (f"lies, seed {at}: {ask.__name__}: {fault}" for fault in found)


ROUNDS: Final[tuple[tuple[Round, int], ...]] = (
    (frames, 30),
    (walks, 400),
    (files, 12),
    (intrusions, 10),
    (deltas, 20),
    (profiles, 3),
    (lies, 3),
    (properties, 1),
)
"""Every attack, and how large a round of it is when there is time."""
