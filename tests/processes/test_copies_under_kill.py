"""Copies by a real daemon that is killed, has much to copy, and serves its clients meanwhile."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.kit.dice import SEED
from tests.kit.link import Link, request
from tests.kit.patience import paused
from tests.kit.sessions import SESSION, native_file, stored_message
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.search]

OTHER = "session-b"
ENTRIES = 3_000
SQUASH = {"indices": [*range(0, ENTRIES, 3)], "squash": {"summary": "S"}}
COPIES: dict[str, tuple[str, dict[str, Any]]] = {
    "path": ("session/fork", {"state": True}),
    "all": ("session/fork", {"entries": "all", "ids": "renew"}),
    "context": ("session/fork", {"entries": "context", "link": "none"}),
    "rebase": ("session/rebase", {"indices": [*range(ENTRIES - 1, -1, -1)]}),
    "squash": ("session/rebase", SQUASH),
    "merge": ("session/merge", {"other_session_id": OTHER, "text": "both", "into": "new"}),
    "merge here": ("session/merge", {"other_session_id": OTHER, "text": "both"}),
}


def put(daemon: Daemon, count: int, words: str = "said ", session_id: str = SESSION) -> Path:
    """Put a file with a chain of entries into the profile before the daemon starts."""
    chain = [
        stored_message(f"m{n}", f"m{n - 1}" if n else None, content=f"{words}{n}")
        for n in range(count)
    ]
    folder = daemon.profile / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-01-01T00-00-00-000000_{session_id}.jsonl"
    path.write_bytes(native_file(chain, session_id))
    return path


def shown(link: Link, session_id: str) -> Any:
    """Return a session's info and its entries; require that it has no problems."""
    info = link.ask("session/get", session_id=session_id)["session"]
    entries = link.ask("session/entries", session_id=session_id, limit=10_000)
    assert link.ask("session/verify", session_id=session_id)["problems"] == []
    return info, entries


@pytest.mark.parametrize("way", ["path", "squash", "merge", "merge here"])
def test_d4_a_copy_that_was_answered_is_there_after_a_kill(daemon: Daemon, way: str) -> None:
    put(daemon, ENTRIES)
    put(daemon, 3, session_id=OTHER)
    method, params = COPIES[way]
    with daemon.connect() as link:
        made = link.ask(method, session_id=SESSION, **params)
        daemon.kill()
    daemon.start()
    with daemon.connect() as link:
        if way == "merge here":
            info, _ = shown(link, SESSION)
            assert (info["leaf_id"], info["seq"]) == (made["leaf_id"], made["seq"])
            return
        info, _ = shown(link, made["session"]["id"])
        assert info == made["session"]
        found = link.ask("session/list", limit=10)["sessions"]
        assert made["session"]["id"] in {one["id"] for one in found}


def test_a_kill_at_any_moment_leaves_whole_copies_and_no_half_of_one(
    socket_path: Path, home: Path
) -> None:
    chance = random.Random(SEED)
    daemon = Daemon(socket_path, home / "data")
    source, other = put(daemon, ENTRIES), put(daemon, 3, session_id=OTHER)
    before = source.read_bytes(), other.read_bytes()
    ways = [way for way in COPIES if way != "merge here"]
    answered: set[str] = set()
    with running(daemon):
        # The message count of each way to copy, by the values that tell the copies apart.
        whole: dict[Any, Any] = {}
        with daemon.connect() as link:
            for way in ways:
                method, params = COPIES[way]
                answer = link.ask(method, session_id=SESSION, dry_run=True, **params)
                whole[_told_apart(answer["session"])] = answer["session"]["message_count"]
        assert len(whole) == len(ways)
        for round_ in range(4):
            with daemon.connect() as link:
                chosen = [chance.choice(ways) for _ in range(12)]
                for number, way in enumerate(chosen):
                    method, params = COPIES[way]
                    link.send(request(f"{round_}.{number}", method, session_id=SESSION, **params))
                for _ in range(chance.randrange(6)):
                    told = link.message()
                    assert "result" in told, told
                    answered.add(told["result"]["session"]["id"])
                # In the midst of the next one.
                paused(chance, 0, 0.05)
                daemon.kill()
            daemon.start()
        with daemon.connect() as link:
            sessions = link.ask("session/list", limit=1000)["sessions"]
            assert answered <= {one["id"] for one in sessions}
            for one in sessions:
                if one["id"] not in {SESSION, OTHER}:
                    info, _ = shown(link, one["id"])
                    assert whole[_told_apart(info)] == info["message_count"]
    assert (source.read_bytes(), other.read_bytes()) == before
    named = {path.name.partition("_")[2] for path in (daemon.profile / "sessions").iterdir()}
    assert named == {f"{one['id']}.jsonl" for one in sessions}


def _told_apart(info: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(info["lineage"])), info["seq"], info["leaf_id"].startswith("m")


def test_who_has_much_copied_keeps_nobody_waiting(socket_path: Path, home: Path) -> None:
    daemon = Daemon(socket_path, home / "data")
    count = 100_000
    put(daemon, count)
    ids = [f"m{n}" for n in range(count)]
    ways: list[tuple[str, dict[str, Any]]] = [
        ("session/fork", {}),
        ("session/fork", {"entries": "all"}),
        ("session/fork", {"dry_run": True}),
        ("session/rebase", {"entry_ids": ids[::-1]}),
    ]
    with running(daemon), daemon.connect() as link, daemon.connect() as other:
        link.ask("session/get", session_id=SESSION)
        for method, params in ways:
            link.send(request("c", method, session_id=SESSION, **params))
            # How many are answered while it is at work, not how fast.
            answers = 0
            while not link.has_more():
                other.ask("session/heads", session_id=SESSION)
                answers += 1
            assert link.answer("c")["session"]["message_count"] == count
            assert answers >= 5, (method, [*params])


def test_what_a_copy_keeps_in_memory_does_not_grow_with_the_session(
    socket_path: Path, home: Path
) -> None:
    daemon = Daemon(socket_path, home / "data")
    size = 4 * 1024 * 1024
    path = put(daemon, 24, "x" * size)
    ways: list[dict[str, Any]] = [
        {"entries": "path"},
        {"entries": "all", "ids": "renew"},
        {"entries": "none", "state": True},
        {"dry_run": True},
    ]
    with running(daemon), daemon.connect() as link:
        link.ask("session/get", session_id=SESSION)
        before = daemon.memory()
        for params in ways:
            made = link.ask("session/fork", session_id=SESSION, **params)["session"]
            assert made["message_count"] == (0 if params.get("entries") == "none" else 24)
        # The source is in the page cache, not in the daemon.
        assert daemon.memory() - before < path.stat().st_size // 2
