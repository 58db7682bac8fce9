"""Files that would fill a reader's memory: sparse files, endless files, lines without an end.

Law: every reader is the real program in a process of its own. Its largest resident size counts. A
bound of the address space protects the machine from a defect.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond.limits import LINE_BYTES_MAX
from tests.kit.agents import claude_line
from tests.kit.link import Link, Refused
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import SESSIOND, Daemon
from tests.processes.test_exhaustion import limited

pytestmark = [pytest.mark.slow, pytest.mark.search]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
# A line that is just short enough is held once, in pieces.
GROWTH_MAX: Final = LINE_BYTES_MAX + 64 * MIB
TIME: Final = '"timestamp":"2026-01-15T10:30:00.000Z"'
HEADERS: Final = {
    "native": f'{{"type":"session_header","version":1,"id":"{SESSION}",{TIME},"cwd":"/p"}}\n',
    "pi": f'{{"type":"session","version":3,"id":"{SESSION}",{TIME},"cwd":"/p"}}\n',
}
PLACE: Final = f"sessions/2026-01-01T00-00-00-000000_{SESSION}.jsonl"
SHAPES: Final = ("nothing but zeros", "zeros in the header", "zeros at the end", "zeros inside")


def said(number: int, dialect: str = "native") -> str:
    parent = "parent_id" if dialect == "native" else "parentId"
    message: dict[str, Any] = {"role": "user", "content": f"word{number}"}
    if dialect == "pi":
        message["timestamp"] = 1
    entry = {"type": "message", "id": f"aaaaaaa{number}", parent: None, "timestamp": TIME[13:-1]}
    return json.dumps({**entry, "message": message}) + "\n"


def large(path: Path, shape: str, size: int, dialect: str = "native") -> Path:
    """Make a sparse file, which takes no disk space but reads as zeros."""
    parts = {
        "nothing but zeros": ("", ""),
        "zeros in the header": (HEADERS[dialect][:40], "\n" + said(1, dialect)),
        "zeros at the end": (HEADERS[dialect] + said(1, dialect), ""),
        "zeros inside": (HEADERS[dialect] + said(1, dialect), "\n" + said(2, dialect)),
    }
    before, behind = parts[shape]
    with path.open("wb") as file:
        file.write(before.encode())
        file.seek(size)
        file.write(behind.encode())
        file.truncate(max(size, file.tell()))
    return path


class Measured:
    """The growth of a daemon's largest resident size while a block runs."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._limited = limited(daemon, resource.RLIMIT_AS, daemon.memory("VmSize") + 3 * GIB)

    def __enter__(self) -> None:
        self._before = self._daemon.memory()
        self._limited.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._limited.__exit__(*error)
        if error[0] is None:
            grown = self._daemon.memory() - self._before
            assert grown < GROWTH_MAX, f"{grown // MIB} MiB"


def outcome(link: Link, method: str, **params: Any) -> str:
    try:
        link.ask(method, **params)
    except Refused as refused:
        return refused.kind
    return "ok"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_daemon_reads_a_sparse_file_in_flat_memory(
    daemon: Daemon, tmp_path: Path, shape: str
) -> None:
    path = large(tmp_path / "large.jsonl", shape, 500 * MIB, "pi")
    bad_header = shape in SHAPES[:2]
    with daemon.connect() as link, Measured(daemon):
        told = outcome(link, "session/open", path=str(path))
        assert told == ("session_corrupt" if bad_header else "ok")
        assert outcome(link, "session/import", path=str(path)) in {"session_corrupt", "ok"}


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_searches_and_repairs_of_a_sparse_file_keep_memory_flat(
    daemon: Daemon, tmp_path: Path, shape: str
) -> None:
    with daemon.connect() as link, Measured(daemon):
        path = large(daemon.profile / PLACE, shape, 500 * MIB)
        found = link.ask("session/list")
        bad_header = shape in SHAPES[:2]
        assert len(found["sessions"]) == (0 if bad_header else 1)
        assert len(found.get("unreadable", [])) == (1 if bad_header else 0)
        hits = link.ask("session/search", query="word1")["hits"]
        assert len(hits) == (0 if bad_header else 1)
        verified = link.ask("session/verify", session_id=SESSION)
        assert not verified["ok"]
        expected = "session_corrupt" if bad_header else "ok"
        assert outcome(link, "session/repair", session_id=SESSION, dry_run=True) == expected
        assert outcome(link, "session/get", session_id=SESSION) == expected
        if shape == "zeros inside":
            message = {"role": "user", "content": "three"}
            refused = link.refusal("session/append", session_id=SESSION, message=message)
            assert (refused.kind, refused.data["line"]) == ("session_corrupt", 3)
            copy = tmp_path / "copy.txt"
            assert link.ask("session/export", session_id=SESSION, path=str(copy))["entries"] == 3
            assert copy.stat().st_size == path.stat().st_size
            assert link.ask("session/repair", session_id=SESSION, dry_run=False)["dropped"] == 1
        if not bad_header:
            link.say(SESSION, "three")


def test_what_the_kernel_makes_without_end_is_no_session(daemon: Daemon) -> None:
    sources = [Path("/proc/self/pagemap"), Path("/dev/zero"), Path("/proc/kmsg")]
    fifo = daemon.profile / PLACE
    with daemon.connect() as link, Measured(daemon):
        os.mkfifo(fifo)
        link_to = fifo.with_name("2026-01-02T00-00-00-000000_session-b.jsonl")
        link_to.symlink_to(sources[0])
        for path in (*sources, fifo, link_to):
            for method in ("session/open", "session/import"):
                told = outcome(link, method, path=str(path))
                assert told in {"session_corrupt", "storage_error"}, (path, method)
        assert len(link.ask("session/list")["unreadable"]) == 2
        for method in ("session/get", "session/verify", "session/repair", "session/delete"):
            told = outcome(link, method, session_id=SESSION)
            assert told == "storage_error", method


@pytest.mark.parametrize("dialect", HEADERS)
def test_a_foreign_line_without_an_end_is_kept_and_skipped_while_the_session_is_open(
    daemon: Daemon, dialect: str
) -> None:
    with daemon.connect() as link:
        path = daemon.profile / PLACE
        path.write_text(HEADERS[dialect] + said(1, dialect))
        link.ask("session/list")
        link.ask("session/subscribe", session_id=SESSION, after={"seq": 1, "entry_id": "aaaaaaa1"})
        with Measured(daemon):
            with path.open("ab") as file:
                for _ in range(300):
                    file.write(b"x" * MIB)
                    file.flush()
                file.write(b"\n" + said(2, dialect).encode())
            event = link.event()
            assert (event["seq"], event["entry"]["id"]) == (3, "aaaaaaa2")
            problem = link.ask("session/verify", session_id=SESSION)["problems"][0]
            assert (problem["line"], problem["kind"]) == (3, "bad_line")
            assert str(300 * MIB) in problem["detail"]
            message = {"role": "user", "content": "x", "timestamp": 1}
            told = outcome(link, "session/append", session_id=SESSION, message=message)
            assert told == ("session_corrupt" if dialect == "native" else "ok")
        link.ask("session/unsubscribe", session_id=SESSION)
        with Measured(daemon):
            link.ask("session/close", session_id=SESSION)
            link.ask(
                "session/subscribe", session_id=SESSION, after={"seq": 1, "entry_id": "aaaaaaa1"}
            )
            assert link.message()["params"]["seq"] == 3
    assert path.read_bytes().count(b"x") >= 300 * MIB


COMMANDS: dict[str, tuple[list[str], int]] = {
    "verify": (["verify", "FILE"], 1),
    "dump": (["dump", "FILE", "--content"], 0),
    "doctor": (["doctor"], 0),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_commands_without_a_daemon_read_a_sparse_file_in_flat_memory(
    socket_path: Path, home: Path, command: str, shape: str
) -> None:
    daemon = Daemon(socket_path, home / "data")
    (daemon.profile / PLACE).parent.mkdir(parents=True)
    path = large(daemon.profile / PLACE, shape, 500 * MIB)
    words, _ = COMMANDS[command]
    arguments = [str(path) if word == "FILE" else word for word in words]
    peak = peak_of([SESSIOND, *arguments], daemon)
    assert peak < GROWTH_MAX + 100 * MIB, f"{peak // MIB} MiB"


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_commands_without_a_daemon_read_no_pipe(
    socket_path: Path, home: Path, command: str
) -> None:
    pipe = home / "pipe.jsonl"
    os.mkfifo(pipe)
    for path in (pipe, Path("/proc/self/pagemap"), Path("/dev/zero")):
        daemon = Daemon(socket_path, home / "data")
        assert peak_of([SESSIOND, command, str(path)], daemon) < 200 * MIB


LAUNCHER = f"""
import os, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, ({2 * GIB}, {2 * GIB}))
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_of(command: list[str], daemon: Daemon) -> int:
    """Run a command to its end; return its largest resident size."""

    with daemon.log.open("ab") as log:
        # A small process in between: the peak of a child begins with the size of its parent.
        launched = subprocess.run(
            [sys.executable, "-c", LAUNCHER, *command],
            env=dict(daemon.environment),
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
        )
    code, peak = map(int, launched.stdout.split())
    assert "Traceback" not in daemon.said()
    assert code in {0, 1}, daemon.said()
    return peak * 1024


LONG: Final = 30 * MIB


def long_lines(folder: Path) -> dict[str, Path]:
    """Make a root of each kind with lines of 30 MB, one file in each; return the roots."""
    words = "words " * (LONG // 6)
    claude = "5e55a1d0-0000-4000-8000-000000000001"
    codex = "019f5000-0000-7000-8000-000000000001"
    pi = "019f5000-0000-7000-8000-000000000002"
    time = {"timestamp": TIME[13:-1]}
    place = {"sessionId": claude, "cwd": "/p", "isSidechain": False, **time}
    user = {"role": "user", "content": words}
    payload = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": words}],
    }
    lines: dict[str, list[dict[str, Any]]] = {
        f"claude/projects/-p/{claude}.jsonl": [
            {"type": "user", "uuid": "u-1", "parentUuid": None, "message": user, **place},
            {"type": "user", "uuid": "u-2", "parentUuid": "u-1", "message": user, **place},
        ],
        f"codex/sessions/2026/01/15/rollout-2026-01-15T10-30-00-{codex}.jsonl": [
            {"type": "session_meta", "payload": {"id": codex, "cwd": "/p", **time}, **time},
            {"type": "response_item", "payload": payload, **time},
        ],
        f"pi/sessions/--p--/2026-01-15T10-30-00-000Z_{pi}.jsonl": [
            {"type": "session", "version": 3, "id": pi, "cwd": "/p", **time},
            {"type": "message", "id": "aaaaaaa1", "parentId": None, "message": user, **time},
        ],
    }
    for name, said in lines.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in said))
    kinds = {"claude-code": "claude/projects", "codex": "codex/sessions", "pi": "pi/sessions"}
    return {kind: folder / name for kind, name in kinds.items()}


def test_a_list_of_folders_with_long_lines_holds_one_of_them(
    daemon: Daemon, tmp_path: Path
) -> None:
    roots = long_lines(tmp_path)
    with daemon.connect() as link:
        link.ask("session/list")
        before = daemon.memory()
        for kind, root in roots.items():
            link.ask("catalog/roots", action="add", path=str(root), kind=kind)
        assert len(link.ask("session/list")["sessions"]) == len(roots)
        grown = daemon.memory() - before
        assert grown < LONG + 64 * MIB, f"{grown // MIB} MiB"


# What a copy is asked for, and how many times it may hold its longest line beside 64 MiB, which is once more: where
# the line becomes an entry, or that becomes an entry of another program, some copies of it live at once.
COPIES: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    "fork": ("session/fork", 1, {}),
    "fork for pi": ("session/fork", 3, {"entries": "all", "dialect": "pi"}),
    "export": ("session/export", 1, {"path": "a.jsonl"}),
    "import": ("session/import", 3, {}),
}


@pytest.mark.parametrize("size", [30 * KIB, 56 * MIB], ids=["many lines", "a long line"])
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_another_agents_session_keeps_memory_flat(
    daemon: Daemon, tmp_path: Path, copy: str, size: int
) -> None:
    path = tmp_path / "5e55a1d0-0000-4000-8000-0000000000aa.jsonl"
    with path.open("wb") as file:
        for n in range(1, 150 * MIB // size + 2):
            role = "assistant" if size < MIB and n % 2 else "user"
            line = claude_line(n, n - 1 or None, "word " * (size // 5), role)
            file.write(json.dumps(line).encode() + b"\n")
    method, times, params = COPIES[copy]
    with daemon.connect() as link:
        if method == "session/import":
            params = {"path": str(path)}
        else:
            session_id = link.ask("session/open", path=str(path))["session"]["id"]
            params = {**params, "session_id": session_id}
        if "path" in params:
            params["path"] = str(tmp_path / params["path"])
        # The largest size counts from now on.
        Path(f"/proc/{daemon.pid}/clear_refs").write_text("5", "ascii")
        before = daemon.memory("VmRSS")
        link.ask(method, **params)
        grown = daemon.memory() - before
    longest = size if size > MIB else 0
    assert grown < times * longest + 64 * MIB, f"{grown // MIB} MiB"
