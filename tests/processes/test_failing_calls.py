"""Failures of every system call that a daemon makes, one after the other.

A failure costs its connection or its call, never the daemon, and the answer names the failure, not
a bug.

Law: only calls fail that the kernel may fail. The machine decides how much work is under way while
a call fails; the promises hold for any amount.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.kit.link import Link, request
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.faults import can_attach, failing

pytestmark = pytest.mark.slow

CALLS: Final[dict[str, tuple[str, ...]]] = {
    "accept4,accept": ("EPERM", "EPROTO", "EIO", "ENOMEM", "ECONNABORTED"),
    "getsockopt": ("EIO", "ENOBUFS"),
    "setsockopt": ("EIO",),
    "ioctl": ("EIO", "ENOMEM"),
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "read": ("EIO", "ENOMEM"),
    "pread64": ("EIO", "ESTALE"),
    "lseek": ("EIO",),
    "stat,lstat,newfstatat,statx": ("ESTALE", "EIO", "EACCES"),
    "fstat": ("ESTALE", "EIO"),
    "openat": ("EIO", "EMFILE", "EACCES"),
    "getdents64": ("EIO", "ESTALE"),
    "fcntl": ("EIO", "ENOLCK"),
    "flock": ("EIO", "ENOLCK"),
    "write,pwrite64": ("EIO", "ENOSPC"),
    "fsync,fdatasync": ("EIO", "ENOSPC"),
    "ftruncate,truncate": ("EIO",),
    "rename,renameat,renameat2,link,linkat": ("EIO", "EXDEV"),
    "unlink,unlinkat": ("EIO", "EROFS"),
    "mkdir,mkdirat,chmod,fchmod,fchmodat": ("EIO", "EPERM"),
    "dup,dup2,dup3": ("EMFILE",),
    "inotify_add_watch,inotify_rm_watch": ("ENOSPC", "ENOMEM"),
    "recvfrom,recvmsg": ("ECONNRESET", "EIO"),
    "sendto,sendmsg": ("EIO", "ENOBUFS"),
    "prlimit64,getrlimit": ("EPERM",),
    "clone,clone3": ("EAGAIN",),
    "uname": ("EFAULT",),
}
SESSION, CLOSED = "session-open", "session-closed"
# So long a daemon has for its answers while a call fails; then the call works again.
UNDER_FAULT_SECONDS: Final = 1.5


@pytest.fixture(scope="session")
def strace(program: Callable[[str], str], absent: Callable[[str], NoReturn]) -> str:
    found = program("strace")
    if not can_attach(found):
        absent("this machine lets nobody trace")
    return found


def acts(folder: Path, number: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the requests made while a call fails: some for each kind of the daemon's work."""
    message = {"role": "user", "content": "said"}
    entry_id = f"{number:032x}"
    stored = {"type": "message", "id": entry_id, "message": message}
    return {
        "append": ("session/append", {"session_id": SESSION, "entry": stored}),
        "open": ("session/get", {"session_id": CLOSED}),
        "path": ("session/open", {"path": str(folder / "outside.jsonl")}),
        "create": (
            "session/create",
            {"cwd": "/p", "session_id": f"session-{number}", "persist": "immediate"},
        ),
        "list": ("session/list", {}),
        "search": ("session/search", {"query": "said"}),
        "verify": ("session/verify", {"session_id": SESSION}),
        "context": ("session/build_context", {"session_id": SESSION}),
        "entries": ("session/entries", {"session_id": SESSION}),
        "fork": ("session/fork", {"session_id": SESSION, "new_session_id": f"forked-{number}"}),
        "export": (
            "session/export",
            {"session_id": SESSION, "path": str(folder / f"out-{number}.jsonl")},
        ),
        "import": ("session/import", {"path": str(folder / "outside.jsonl")}),
        "update": ("session/update", {"session_id": SESSION, "title": f"title {number}"}),
        "repair": ("session/repair", {"session_id": SESSION}),
        "close": ("session/close", {"session_id": CLOSED}),
        "delete": ("session/delete", {"session_id": f"forked-{number - 1}"}),
        "archive": ("session/archive", {"session_id": f"session-{number - 1}"}),
        "retention": ("retention/run", {"max_age_hours": 1000, "dry_run": True}),
        "info": ("server/info", {}),
    }


def answers_to(connected: socket.socket, due: float) -> tuple[list[dict[str, Any]], bool]:
    """Return the answers that come before `due`, and whether the connection is still open."""
    received = b""
    while (left := due - time.monotonic()) > 0:
        if not select.select([connected], [], [], left)[0]:
            break
        try:
            data = connected.recv(1 << 20)
        except ConnectionError:
            data = b""
        received += data
        if not data:
            return _messages(received), False
        if received.endswith(b"\n") and received.count(b'"id":') >= len(acts(Path(), 1)):
            due = min(due, time.monotonic() + 0.05)
    return _messages(received), True


def _messages(received: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in received.split(b"\n")[:-1]]


def connected_to(daemon: Daemon) -> socket.socket:
    """Return a connection that may be lost."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.settimeout(10)
    one.connect(str(daemon.socket_path))
    return one


def send_all(one: socket.socket, asked: dict[str, tuple[str, dict[str, Any]]]) -> None:
    try:
        one.sendall(b"".join(request(id_, name, **params) for id_, (name, params) in asked.items()))
    except ConnectionError:
        # It was lost; what was asked on it was not done.
        return


def works(link: Link, acknowledged: set[str]) -> None:
    """Check that lists and appends work, and that all acknowledged entries are stored."""
    link.ask("session/list")
    for session_id in (SESSION, CLOSED):
        assert link.say(session_id, "after")["durability"] == "disk"
    stored = link.ask("session/entries", session_id=SESSION)["entries"]
    assert acknowledged <= {one["entry"]["id"] for one in stored}
    assert link.ask("session/search", query="after")["hits"]


@pytest.mark.parametrize("calls", CALLS)
def test_a_system_call_that_fails_costs_its_connection_or_its_call(
    daemon: Daemon, strace: str, tmp_path: Path, calls: str
) -> None:
    with daemon.connect() as link:
        for session_id in (SESSION, CLOSED):
            link.ask("session/create", cwd="/p", session_id=session_id, persist="immediate")
            link.say(session_id, "before")
        link.ask("session/close", session_id=CLOSED)
        link.ask("session/export", session_id=CLOSED, path=str(tmp_path / "outside.jsonl"))
        acknowledged: set[str] = set()
        for number, error in enumerate(CALLS[calls], 1):
            with connected_to(daemon) as before:
                asked = acts(tmp_path, number)
                with failing(strace, daemon.pid, calls, error), connected_to(daemon) as during:
                    send_all(before, asked)
                    send_all(during, {"late": ("session/list", {})})
                    told, _ = answers_to(before, time.monotonic() + UNDER_FAULT_SECONDS)
                    told += answers_to(during, time.monotonic() + 0.1)[0]
                rest, _ = answers_to(before, time.monotonic() + 0.2)
            daemon.require_running()
            for answer in [*told, *rest]:
                data = answer.get("error", {}).get("data", {})
                assert data.get("kind") != "internal", (error, answer)
                if answer.get("id") == "append" and "result" in answer:
                    acknowledged.add(f"{number:032x}")
        # All of it works again, on the connection that was there and on a new one.
        with daemon.connect() as again:
            for one in (link, again):
                works(one, acknowledged)
    assert '"bug"' not in daemon.said()
