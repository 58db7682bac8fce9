"""A profile whose files were damaged while no daemon ran, except some session files.

Law: the intact sessions are still there, can be found and written to. The doctor reports all other
damage, which stops no client.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.fuzz.files import mutated_file
from tests.fuzz.mutations import mutated_bytes, noise
from tests.fuzz.plain import Answer, Plain
from tests.processes.harness.daemon import SESSIOND, Daemon

__all__ = ["damage", "examined", "fill", "still_there"]

_HEALTHY: Final = ("healthy-1", "healthy-2", "healthy-3")
_STRAYS: Final = (
    *(
        "x.jsonl",
        ".jsonl",
        "2026-01-01T00-00-00-000000_.jsonl",
        "2026-01-01T00-00-00-000000_a b.jsonl",
    ),
    *("no-stamp_session-x.jsonl", "2026-01-01T00-00-00-000000_session-stray.jsonl.tmp", "..jsonl"),
    *("2026-01-01T00-00-00-000000_session-stray.jsonl", "\udcff\udcfe.jsonl", "a\nb.jsonl"),
)
_DOCTOR_SECONDS: Final = 60


def fill(client: Plain) -> None:
    """Make sessions, and let the daemon make all its other files."""
    for session_id in _HEALTHY:
        client.call("session/create", cwd="/p", session_id=session_id, persist="immediate")
        message = {"role": "user", "content": f"word of {session_id}"}
        client.call("session/append", session_id=session_id, message=message)
    client.call("session/archive", session_id=_HEALTHY[2])
    client.call("session/search", query="word")
    client.call("session/list")


def _keep(_path: Path, _dice: random.Random) -> None:
    return


def _mutate(path: Path, dice: random.Random) -> None:
    path.write_bytes(mutated_bytes(path.read_bytes(), dice))


def _fill_with_noise(path: Path, dice: random.Random) -> None:
    path.write_bytes(noise(dice, dice.choice([1, 100, 100_000])))


def _empty(path: Path, _dice: random.Random) -> None:
    path.write_bytes(b"")


def _remove(path: Path, _dice: random.Random) -> None:
    path.unlink()


def _become_folder(path: Path, _dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _lead_nowhere(path: Path, _dice: random.Random) -> None:
    path.unlink()
    path.symlink_to(path)


Damage = Callable[[Path, random.Random], None]
_OF_CONTENT: Final[tuple[Damage, ...]] = (
    _keep,
    _mutate,
    _mutate,
    _mutate,
    _fill_with_noise,
    _empty,
    _remove,
)
_OF_ANY_KIND: Final[tuple[Damage, ...]] = (*_OF_CONTENT, _become_folder, _lead_nowhere)
# A bit that flips in a table of words is a word less, and nothing tells.
_OF_INDEX: Final[tuple[Damage, ...]] = tuple(one for one in _OF_ANY_KIND if one is not _mutate)
# Without these no daemon starts, and says so: what stands in their place is for a person to see.
_NEEDED: Final = ("catalog.sqlite", "daemon.lock")


def damage(profile: Path, dice: random.Random) -> None:
    """Damage what is no session file, and put among the sessions what is none, or a bad one."""
    locks = profile.parent.parent / "locks"
    kept = [*profile.glob("*.sqlite*"), *profile.glob("*.lock"), *locks.iterdir()]
    for path in sorted(kept):
        damages = _OF_CONTENT if path.name.startswith(_NEEDED) else _OF_ANY_KIND
        if path.name.startswith("search"):
            damages = _OF_INDEX
        dice.choice(damages)(path, dice)
    for folder in ("sessions", "pending", "archive", "trash"):
        (profile / folder).mkdir(exist_ok=True)
        for name in dice.sample(_STRAYS, 3):
            _stray(profile / folder / name, dice)
        for number in range(3):
            path = profile / folder / f"2026-01-01T00-00-00-00000{number}_{folder}-{number}.jsonl"
            path.write_bytes(mutated_file(dice))


def _stray(path: Path, dice: random.Random) -> None:
    match dice.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(dice.choice(["/dev/zero", "/nowhere", path.name, ".", "/dev/full"]))
        case _:
            path.write_bytes(mutated_file(dice))


def examined(daemon: Daemon) -> Iterator[str]:
    """Run the doctor on the profile; yield a fault unless it prints a report."""
    done = subprocess.run(
        [SESSIOND, "doctor", "--json"],
        env=daemon.environment,
        capture_output=True,
        timeout=_DOCTOR_SECONDS,
        check=False,
    )
    if done.returncode not in {0, 1} or b"Traceback" in done.stderr:
        yield f"the doctor ended with {done.returncode}: {done.stderr[-1000:]!r}"
        return
    json.loads(done.stdout)


def _names_index(answer: Answer) -> bool:
    return answer.kind == "storage_error" and "search.sqlite" in repr(answer)


def still_there(client: Plain) -> Iterator[str]:
    """Yield the faults of the intact sessions."""
    listed = client.call("session/list", archived=None, drafts=True)
    ids = [one["id"] for one in listed.result["sessions"]] if listed.error is None else []
    found = client.call("session/search", query="word", limit=1000)
    hits = {hit["session_id"] for hit in found.result["hits"]} if found.error is None else set()
    for session_id in _HEALTHY:
        if ids.count(session_id) != 1:
            yield f"{session_id} is listed {ids.count(session_id)} times: {listed!r}"
        # An index that is no file is told by its name, and may be deleted.
        if session_id not in hits and session_id != _HEALTHY[2] and not _names_index(found):
            yield f"{session_id} is not found: {found!r}"
        page = client.call("session/entries", session_id=session_id)
        if page.error is not None or len(page.result["entries"]) != 1:
            yield f"{session_id} has another content: {page!r}"
    message = {"role": "user", "content": "more"}
    answer = client.call("session/append", session_id=_HEALTHY[0], message=message)
    if answer.error is not None:
        yield f"nothing can be appended: {answer!r}"
    yield from client.faults
