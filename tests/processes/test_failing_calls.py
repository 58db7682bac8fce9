"""Failures of every system call that a daemon makes, one after the other.

A failure costs its connection or its call, never the daemon, and the answer names the failure, not
a bug.

Law: only calls fail that the kernel may fail. Each request is answered, or its connection is lost. The
machine decides which of the work is done while the call fails; the promises hold for any part of it.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.link import request
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.faults import failing

pytestmark = [pytest.mark.slow, pytest.mark.search]

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
# Where SQLite has no locks, what needs the catalog waits until there are locks again.
OF_OPEN_SESSIONS: Final = frozenset(
    {"append", "context", "entries", "export", "info", "repair", "update", "verify"}
)


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


@pytest.mark.parametrize("calls", CALLS)
def test_a_system_call_that_fails_costs_its_connection_or_its_call(
    daemon: Daemon, strace: str, tmp_path: Path, calls: str
) -> None:
    with daemon.connect() as link:
        for session_id in (SESSION, CLOSED):
            link.create("before", session_id=session_id)
        link.ask("session/close", session_id=CLOSED)
        link.ask("session/export", session_id=CLOSED, path=str(tmp_path / "outside.jsonl"))
        acknowledged: set[str] = set()
        for number, error in enumerate(CALLS[calls], 1):
            asked = acts(tmp_path, number)
            at_once = OF_OPEN_SESSIONS if calls == "fcntl" else asked.keys()
            with daemon.connect() as before, ExitStack() as at_end:
                before.ask("server/ping")
                with failing(strace, daemon.pid, calls, error):
                    during = at_end.enter_context(daemon.connect())
                    # What is asked on a connection that is lost is not done.
                    with suppress(ConnectionError):
                        before.send(
                            b"".join(
                                request(id_, method, **params)
                                for id_, (method, params) in asked.items()
                            )
                        )
                    with suppress(ConnectionError):
                        during.send(request("late", "session/list"))
                    told = before.answers(at_once)
                told += before.answers(asked.keys() - {answer["id"] for answer in told})
                told += during.answers({"late"})
            daemon.require_running()
            for answer in told:
                data = answer.get("error", {}).get("data", {})
                assert data.get("kind") != "internal", (error, answer)
                if answer["id"] == "append" and "result" in answer:
                    acknowledged.add(f"{number:032x}")
        # All of it works again, on the connection that was there and on a new one.
        with daemon.connect() as again:
            for one in (link, again):
                one.ask("session/list")
                for session_id in (SESSION, CLOSED):
                    assert one.say(session_id, "after")["durability"] == "disk"
                stored = one.ask("session/entries", session_id=SESSION)["entries"]
                assert acknowledged <= {row["entry"]["id"] for row in stored}
                assert one.ask("session/search", query="after")["hits"]
    assert '"bug"' not in daemon.said()
