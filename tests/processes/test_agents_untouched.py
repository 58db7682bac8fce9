"""The system calls of a daemon on the files of other agents: it looks and reads, and does nothing else."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.kit.agent_files.roots import (
    Made,
    Plan,
    make_claude_root,
    make_codex_root,
    make_gemini_root,
)
from tests.kit.link import Link, Refused
from tests.kit.opencode import FOOTER, database, text, with_message
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.tracing import tracing

pytestmark = [pytest.mark.slow, pytest.mark.search]

MORE = text("more")

# What a reader does with a path or a descriptor. `open` and `fcntl` are looked at more closely.
READS = frozenset(
    {
        *("open", "openat", "openat2", "close", "dup", "dup2", "dup3", "fcntl"),
        *("read", "readv", "pread64", "preadv", "preadv2", "lseek", "getdents", "getdents64"),
        *("stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs"),
        *("access", "faccessat", "faccessat2", "readlink", "readlinkat", "fadvise64", "readahead"),
        *("inotify_add_watch", "chdir", "fchdir", "getcwd"),
    }
)
ONLY_READS = re.compile(r"\bO_RDONLY\b")
MAKES = re.compile(r"\bO_(CREAT|TRUNC|APPEND|TMPFILE)\b")
LOCKS = re.compile(r"\bF_(OFD_)?SETLKW?(64)?\b|\bF_SETLEASE\b|\bF_SETOWN\b")
# A reader of a database that another program has open tells that program so. SQLite opens the log of
# the database as a writer would, gives the log the owner of the database if it runs as root, and writes
# nothing.
LOCKS_OF_READERS = re.compile(r"l_type=F_(RDLCK|UNLCK)\b|F_GETLK")
OF_SQLITE = frozenset({"mmap", "munmap", "geteuid", "fchown"})
UNFINISHED = "<unfinished ...>"
CALL = re.compile(r"^\d+ +(\w+)\((.*)", re.MULTILINE)


# Without the bytes that are read and written, a path in a call is the path of a file.
traced = tracing("%file,%desc", shown_bytes=0)


def on_files(trace: str, root: Path) -> list[tuple[str, str]]:
    """Return the calls that name a path below a folder or a descriptor of one, with their arguments.

    Each call has its result, also if another thread's call came between.
    """
    whole: list[str] = []
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread, _, call = line.partition(" ")
        if call.endswith(UNFINISHED):
            begun[thread] = line.removesuffix(UNFINISHED)
        elif " resumed>" in call and thread in begun:
            whole.append(begun.pop(thread) + call.partition(" resumed>")[2])
        else:
            whole.append(line)
    named = re.compile(rf'[<"]{re.escape(str(root))}[/">]')
    found = CALL.findall("\n".join([*whole, *begun.values()]))
    return [(name, rest) for name, rest in found if named.search(rest)]


def faults(calls: list[tuple[str, str]], *, on_a_database: bool = False) -> list[tuple[str, str]]:
    """Return the calls that are none of a reader, or none of a reader of a database in use."""
    found: list[tuple[str, str]] = []
    for name, rest in calls:
        is_fault = (
            name not in READS
            or (name.startswith("open") and (MAKES.search(rest) or not ONLY_READS.search(rest)))
            or (name == "fcntl" and LOCKS.search(rest))
        )
        is_of_sqlite = name in OF_SQLITE or (name.startswith("open") and '-wal"' in rest)
        if name == "fcntl":
            # SQLite asks for a lock of its own as it closes, on a descriptor that cannot write.
            is_of_sqlite = LOCKS_OF_READERS.search(rest) is not None or "EBADF" in rest
        if is_fault and not (on_a_database and is_of_sqlite):
            found.append((name, rest))
    return found


READING: dict[str, dict[str, Any]] = {
    "session/get": {},
    "session/entries": {},
    "session/tree": {},
    "session/turns": {},
    "session/build_context": {},
    "session/stats": {},
    "session/verify": {},
    "session/export": {},
    "session/fork": {},
}
CHANGING: dict[str, dict[str, Any]] = {
    "session/append": {"message": {"role": "user", "content": "x"}},
    "session/rewind": {"to": None},
    "session/update": {"title": "x"},
    "session/repair": {"dry_run": False},
    "session/archive": {},
    "session/delete": {},
    "session/compact": {},
}


def use(link: Link, made: list[Made], roots: list[Path]) -> None:
    """Do with the sessions of some roots what clients do."""
    for root in roots:
        link.ask("catalog/roots", action="add", path=str(root))
    rows = link.listed(subagents=True)
    assert len(rows) >= len({one.session_id for one in made})
    for row in rows:
        for method, params in READING.items():
            link.ask(method, session_id=row["id"], **params)
        for method, params in CHANGING.items():
            with pytest.raises(Refused):
                link.ask(method, session_id=row["id"], **params)
    assert link.ask("session/search", query="lagoon")["hits"]
    link.ask("catalog/forest")
    growing = [
        row
        for row in rows
        if row["path"].endswith(".jsonl") and not (row["lineage"] or {}).get("subagent")
    ]
    for row in (growing[0], growing[-1], growing[len(growing) // 2]):
        told = link.ask("subscribe", session_id=row["id"])
        path = Path(row["path"])
        last_line = path.read_bytes().split(b"\n")[-2] + b"\n"
        with path.open("ab") as file:
            file.write(last_line)
        assert link.event()["seq"] == told["seq"] + 1
        link.ask("session/flush", session_id=row["id"])
        link.ask("session/unsubscribe", session_id=row["id"])
    for row in rows:
        link.ask("session/close", session_id=row["id"])
    link.listed(subagents=True)
    for root in roots:
        link.ask("catalog/roots", action="remove", path=str(root))


def test_a_daemon_only_looks_at_and_reads_the_files_of_agents(
    traced: tuple[Daemon, Path], tmp_path: Path
) -> None:
    daemon, trace = traced
    agents = tmp_path.resolve() / "agents"
    plan = Plan(files=6)
    big = Plan(seed=1, files=0, big_files=1, big_bytes=2 << 20)
    made = [
        *make_claude_root(agents / "claude", plan),
        *make_codex_root(agents / "codex", Plan(files=10)),
        *make_gemini_root(agents / "gemini", plan),
        *make_claude_root(agents / "claude", big),
    ]
    roots = [
        agents / "claude" / "projects",
        agents / "codex" / "sessions",
        agents / "codex" / "archived_sessions",
        agents / "gemini" / "tmp",
    ]
    names = sorted(agents.rglob("*"))
    with daemon.connect() as link:
        use(link, made, roots)
        link.ask("server/stop")
        link.rest()
    assert daemon.end() == 0
    calls = on_files(trace.read_text("utf-8", "replace"), agents)
    # A tracer that sees nothing would find nothing wrong.
    counts = Counter(name for name, _ in calls)
    assert counts["pread64"] > len(made)
    for one in made:
        assert any(f'"{one.path}"' in rest for name, rest in calls if name == "openat"), one
    assert faults(calls) == []
    assert sorted(agents.rglob("*")) == names


def test_a_call_of_a_trace_has_its_result_also_where_another_thread_came_between() -> None:
    trace = (
        "7 fcntl(16</r/x.db>, F_SETLK, {l_type=F_WRLCK} <unfinished ...>\n8 close(3</r/y>) = 0\n"
        "7 <... fcntl resumed>) = -1 EBADF (Bad file descriptor)\n9 fsync(4</r/z> <unfinished ...>\n"
    )
    calls = on_files(trace, Path("/r"))
    assert [name for name, _ in calls] == ["close", "fcntl", "fsync"]
    assert faults(calls, on_a_database=True) == [calls[2]]


@pytest.mark.parametrize("is_live", [False, True], ids=["at-rest", "live"])
def test_a_daemon_only_reads_the_database_of_an_agent(
    traced: tuple[Daemon, Path], tmp_path: Path, is_live: bool
) -> None:
    daemon, trace = traced
    root = tmp_path.resolve() / "opencode"
    root.mkdir()
    path = database(root / "opencode.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        if is_live:
            writer.execute("UPDATE session SET time_updated = time_updated + 1")
        else:
            writer.close()
        names = sorted(root.rglob("*"))
        before = {name.name: name.read_bytes() for name in names}
        with daemon.connect() as link:
            link.ask("catalog/roots", action="add", path=str(root))
            (row,) = link.listed(subagents=True)
            for method, params in READING.items():
                link.ask(method, session_id=row["id"], **params)
            for method, params in CHANGING.items():
                with pytest.raises(Refused):
                    link.ask(method, session_id=row["id"], **params)
            assert link.ask("session/search", query="footer")["hits"]
            if is_live:
                told = link.ask("subscribe", session_id=row["id"])
                for sql, values in with_message(FOOTER, "msg_z", 10**7, {"role": "user"}, MORE):
                    writer.execute(sql, values)
                assert link.event()["seq"] == told["seq"] + 1
            else:
                assert {name.name: name.read_bytes() for name in names} == before
            link.ask("session/close", session_id=row["id"])
            link.ask("server/stop")
            link.rest()
        assert daemon.end() == 0
        assert sorted(root.rglob("*")) == names
    calls = on_files(trace.read_text("utf-8", "replace"), root)
    assert sum(f'"{path}"' in rest for name, rest in calls if name == "openat") > 1
    assert faults(calls, on_a_database=is_live) == []


def test_the_tracer_sees_what_no_reader_does(
    tmp_path: Path, program: Callable[[str], str], absent: Callable[[str], NoReturn]
) -> None:
    strace = program("strace")
    if subprocess.run([strace, "-f", "true"], capture_output=True, check=False).returncode:
        absent("this machine lets nobody trace")
    root, trace = tmp_path.resolve() / "root", tmp_path / "trace"
    root.mkdir()
    (root / "a").write_text("x")
    act = (
        "import fcntl, os; os.chdir('/'); f = os.open(p := root + '/a', os.O_RDWR);"
        "fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX); os.fsync(f);"
        "os.fdatasync(f); os.write(f, b'y'); os.ftruncate(f, 0); os.utime(p); os.fchmod(f, 0o600);"
        "os.rename(p, root + '/b'); os.unlink(root + '/b'); os.mkdir(root + '/c')"
    )
    script = f"root = {str(root)!r}; {act}"
    command = [strace, "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-o", str(trace)]
    subprocess.run([*command, sys.executable, "-c", script], check=True)
    found = {name for name, _ in faults(on_files(trace.read_text("utf-8"), root))}
    assert found >= {"openat", "flock", "fcntl", "fsync", "fdatasync", "write", "ftruncate"}
    assert found & {"utimensat", "utime"}
    assert found >= {"fchmod"}
    assert found & {"rename", "renameat", "renameat2"}
    assert found & {"unlink", "unlinkat"}
    assert found & {"mkdir", "mkdirat"}
