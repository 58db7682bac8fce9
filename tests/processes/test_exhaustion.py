"""A daemon without free descriptors, memory or threads: it refuses some calls and goes on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import MEMORY_SESSION_BYTES_MAX
from tests.kit.link import Refused, request
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.faults import attached, failing
from tests.processes.harness.openings import GROWN_BYTES_MAX, grown_by_openings

pytestmark = [pytest.mark.slow, pytest.mark.search]

MIB = 1 << 20


@contextmanager
def limited(daemon: Daemon, what: int, soft: int) -> Iterator[None]:
    """Limit a resource of the daemon during the block."""
    before = resource.prlimit(daemon.pid, what)
    resource.prlimit(daemon.pid, what, (soft, before[1]))
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, what, before)


# What needs a descriptor, and what is said where there is none.
NEEDS_ONE: dict[str, tuple[str, dict[str, Any]]] = {
    "session/create": ("overloaded", {"cwd": "/p"}),
    "session/list": ("storage_error", {}),
    "session/verify": ("storage_error", {"session_id": SESSION}),
    "session/archive": ("storage_error", {"session_id": SESSION}),
    "session/get": ("overloaded", {"session_id": "session-closed"}),
}


def test_without_a_descriptor_who_is_connected_is_served_and_others_wait(
    daemon: Daemon, strace: str, tmp_path: Path
) -> None:
    trace, appends = tmp_path / "trace", 200
    with daemon.connect() as link:
        link.create("one")
        link.create("one", session_id="session-closed")
        link.ask("session/close", session_id="session-closed")
        link.ask("session/list")
        # It would make room for others if nobody used it.
        link.ask("session/subscribe", session_id=SESSION)
        # The lowest free number of a descriptor: threads may have more of them for a moment.
        descriptors = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        for _ in range(50):
            link.ask("server/ping")
            used = {int(path.name) for path in Path(f"/proc/{daemon.pid}/fd").iterdir()}
            descriptors = min(descriptors, *({*range(len(used) + 1)} - used))
        with limited(daemon, resource.RLIMIT_NOFILE, descriptors):
            # A list that finds the folder as it was needs no descriptor.
            (daemon.profile / "sessions" / "another.txt").touch()
            for method, (kind, params) in NEEDS_ONE.items():
                refused = link.refusal(method, **params)
                assert refused.kind == kind, method
                assert refused.data.get("errno") in {"EMFILE", None}, method
                assert refused.data["retryable"] is True, method
            with attached(strace, daemon.pid, "accept,accept4", "-o", str(trace)):
                waiting = [daemon.connect() for _ in range(3)]
                for other in waiting:
                    other.send(request(1, "server/ping"))
                # Each is a turn of the loop, which would find the listener ready every time.
                for number in range(appends):
                    link.say(SESSION, f"said {number}")
            # Told once, and once more behind each connection that finds a descriptor after all: a
            # thread may have let go of one below the highest.
            assert 1 <= daemon.said().count("cannot accept for now") <= 1 + len(waiting)
        for other in waiting:
            assert other.answer(1) is not None
            other.close()
        assert 1 <= trace.read_text("utf-8").count("EMFILE") < appends
        assert len(link.contents(SESSION)) == 1 + appends
        for method, (_, params) in NEEDS_ONE.items():
            link.ask(method, **params)


def test_sessions_that_nobody_uses_make_room_where_descriptors_are_few(daemon: Daemon) -> None:
    names = [f"session-{number:02}" for number in range(60)]
    with daemon.connect() as link, limited(daemon, resource.RLIMIT_NOFILE, 64):
        for name in names:
            link.create("one", session_id=name)
        for name in names:
            assert link.say(name, "two")["seq"] == 2
        assert len(link.ask("session/list")["sessions"]) == len(names)
        with ExitStack() as others:
            for _ in range(5):
                other = others.enter_context(daemon.connect())
                assert other.contents(names[0]) == ["one", "two"]
        # Those that somebody uses stay, and what is left is for what is no session.
        with pytest.raises(Refused) as refused:
            [link.ask("session/subscribe", session_id=name) for name in names]
        assert (refused.value.kind, refused.value.data["limit"]) == ("overloaded", 64)
        link.ask("session/list")
        link.ask("session/verify", session_id=names[0])
        daemon.connect().close()
    assert "cannot accept" not in daemon.said()
    assert "the catalog is kept in memory" not in daemon.said()


def test_a_request_for_which_there_is_no_memory_is_refused_alone(daemon: Daemon) -> None:
    with daemon.connect() as link, daemon.connect() as large:
        link.create("one")
        large.say(SESSION, "two")
        content = "x" * (30 * MIB)
        with limited(daemon, resource.RLIMIT_AS, daemon.memory("VmSize") + 24 * MIB):
            message = {"role": "user", "content": content}
            large.send(request(7, "session/append", session_id=SESSION, message=message))
            with pytest.raises(Refused) as refused:
                large.answer(None)
            assert refused.value.kind == "overloaded"
            for number in range(20):
                link.say(SESSION, f"said {number}")
            assert large.say(SESSION, "small")["seq"] == 23
        assert large.say(SESSION, content)["seq"] == 24
        assert len(link.contents(SESSION)[-1]) == len(content)


def test_without_threads_appends_are_refused_or_stored(daemon: Daemon, strace: str) -> None:
    names = [f"session-{n}" for n in range(12)]
    with daemon.connect() as link:
        for name in names:
            link.create("one", session_id=name)

    def append(name: str) -> str:
        with daemon.connect() as link:
            try:
                return str(link.say(name, "two")["durability"])
            except Refused as refused:
                return refused.kind

    with ThreadPoolExecutor(len(names)) as clients:
        with failing(strace, daemon.pid, "clone,clone3", "EAGAIN"):
            outcomes = [*clients.map(append, names)]
        assert set(outcomes) <= {"disk", "overloaded"}
        again = [name for name, outcome in zip(names, outcomes, strict=True) if outcome != "disk"]
        assert {*clients.map(append, again)} <= {"disk"}
    with daemon.connect() as link:
        assert [link.contents(name) for name in names] == [["one", "two"]] * len(names)


def test_a_session_in_memory_takes_appends_until_its_bound(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="never")
        before = daemon.memory()
        told = []
        for _ in range(30):
            try:
                link.say(SESSION, "x" * (20 * MIB))
                told.append("ok")
            except Refused as refused:
                told.append(refused.kind)
        assert set(told) == {"ok", "too_large"}
        assert told.count("ok") == MEMORY_SESSION_BYTES_MAX // (20 * MIB)
        assert daemon.memory() - before < MEMORY_SESSION_BYTES_MAX + 150 * MIB


def test_a_refused_append_leaves_no_bytes_behind(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.create("one")
        before = daemon.memory()
        for number in range(20):
            text = "x" * (20 * MIB)
            refusals: tuple[dict[str, Any], ...] = (
                {"expected": {"seq": 99}},
                {"parent_id": f"{number:032x}"},
                {"unknown": True},
            )
            with pytest.raises(Refused):
                link.say(SESSION, text, **refusals[number % len(refusals)])
        assert daemon.memory() - before < 150 * MIB


def test_openings_of_one_session_do_not_add_up(daemon: Daemon) -> None:
    with daemon.connect() as link:
        grown = grown_by_openings(daemon, link)
        assert grown < GROWN_BYTES_MAX, f"{grown >> 20} MiB"
