"""`make search PART=vanishing`: the daemon vanishes at a drawn moment of each command, and of clients.

    python -m tests.vanishing --minutes 2 --seed 7           rounds until the time is over
    python -m tests.vanishing --seed 7 --only "append kill"  one command and one fate
    python -m tests.vanishing --minutes 3 --calls mcp,lsp    calls whose names begin so

A command or a program starts as the daemon meets its fate. A live client (tests/live_calls.py: MCP, LSP, browse,
TypeScript, Neovim, Emacs, VS Code, pi) is connected before; its call is made right before the fate, or right behind its begin.

Law: each call ends in its time, with the right answer or with an error that says what to do; what reads or is
named by its ids is answered. What a call stores is stored once at most, and exactly once if the call said so.
The next command works.

Exit 0 = the law held.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests import live_calls
from tests.processes.harness.shell import Shell, user_shell

__all__ = ["main"]

WORKERS: Final = 3
# A command gives a silent daemon 30 seconds, and its new daemon a start.
BOUND_SECONDS: Final = 75.0
MARK: Final = "MARK"
PYTHON: Final = """
import sessiond_client
with sessiond_client.connect_blocking(restart=True) as client:
    {}
"""
ASYNC: Final = """
import anyio, sessiond_client
async def main():
    async with sessiond_client.connect(restart=True) as client:
        {}
anyio.run(main)
"""
SAID: Final = "message={'role': 'user', 'content': 'MARK'}"
RUN_LIVE: Final = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from tests.live_calls import main
main()
"""
ADVICE: Final = re.compile(r"\blook\b|`sessiond|tr(?:y|ies) again|shows whether", re.IGNORECASE)
STUBS: Final = Path(__file__).resolve().parents[1] / "clients" / "stubs"
COMMANDS: Final = {
    **{
        name: f"{name} my-session"
        for name in (
            *("show", "tree", "context", "turns", "tail", "heads", "usage", "brief", "verify"),
            *("dump", "prune", "archive", "unarchive", "delete"),
        )
    },
    **{
        name: name for name in ("list", "forest", "trash", "roots", "status", "continue", "restart")
    },
    "search": "search cron",
    "retention": "retention --dry-run",
    "plan": "plan my-session --keep 1",
    "label list": "label my-session",
    "state get": "state list",
    "export": "export my-session -",
    "append": "append my-session MARK",
    "append twice": "append my-session MARK --key key-MARK",
    "decide": "decide my-session MARK",
    "task": "task my-session MARK",
    "artifact": "artifact my-session MARK refs/MARK",
    "branch": "branch my-session entry-1 --summary MARK",
    "navigate": "navigate my-session entry-1",
    "rewind": "rewind my-session entry-1",
    "label": "label my-session entry-1 MARK",
    "compact": "compact my-session --summary MARK --keep-from entry-2",
    "new": "new --title MARK",
    "fork": "fork my-session --title MARK",
    "rebase": "rebase my-session entry-2 entry-1",
    "rename": "rename my-session my-session",
    "scope": "scope global",
    "import": "import session.jsonl",
    "state set": 'state set settings theme "dark"',
    "state delete": "state delete settings theme",
    "secret list": "secret list",
}
"""Words of each command, by a name."""
PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "python get": ["-c", PYTHON.format("client.get('my-session-id')")],
    "python append": ["-c", PYTHON.format(f"client.append('my-session-id', {SAID})")],
    "python label": ["-c", PYTHON.format("client.label('my-session-id', 'entry-1', 'MARK')")],
    "async append": ["-c", ASYNC.format(f"await client.append('my-session-id', {SAID})")],
    "async list": ["-c", ASYNC.format("await client.list()")],
    "stub append": [str(STUBS / "stub.py"), "append", "my-session-id", MARK],
    "stub context": [str(STUBS / "stub.py"), "context", "my-session-id"],
}
"""Words of a Python that makes the call of a client, by a name."""
LIVE: Final[Mapping[str, Sequence[str]]] = {
    f"{client} {call}": ["-c", RUN_LIVE, client, call, MARK]
    for client in live_calls.available()
    for call in live_calls.CALLS[client]
}
"""Words of a Python that makes a call of a live client, by a name."""
CALLS: Final[Mapping[str, Sequence[str]]] = {
    **{name: words.split() for name, words in COMMANDS.items()},
    **PROGRAMS,
    **LIVE,
}
ANSWERED: Final = frozenset(
    {
        *("list", "search", "show", "tree", "context", "turns", "tail", "heads", "usage", "forest"),
        *("trash", "brief", "verify", "dump", "plan", "label list", "secret list", "export"),
        *("append", "append twice", "stub append", "stub context"),
        *("python get", "python append", "async append", "async list"),
        *("mcp read", "mcp append", "lsp hover", "lsp search", "browse read"),
        *("vscode read", "pi presence"),
        *(
            f"{client} {call}"
            for client in ("typescript", "neovim", "emacs", "vscode")
            for call in ("list", "append")
        ),
    }
)
"""Calls that read, or whose ids name them: a new daemon answers them."""
FATES: Final = ("kill", "stop", "hang", "hang, kill", "socket", "silent")


def main(words: Sequence[str] | None = None) -> int:
    """Run rounds; return 1 if the law was broken."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--calls", default="", help="beginnings of the names of calls, with commas")
    parser.add_argument("--only", default="", help="a command and a fate, as a failure names them")
    options = parser.parse_args(words)
    calls = [call for call in CALLS if call.startswith(tuple(options.calls.split(",")))]
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    sys.stdout.write(f"vanishing: SEED={seed}\n")
    end = time.monotonic() + options.minutes * 60
    with ThreadPoolExecutor(WORKERS) as workers:
        rounds = [
            workers.submit(_rounds, f"{seed} {at}", at, end, (calls, options.only))
            for at in range(WORKERS)
        ]
        told = [one.result() for one in rounds]
    faults = [fault for _, found in told for fault in found]
    for fault in faults:
        sys.stdout.write(f"VIOLATION: {fault}\n")
    sys.stdout.write(
        f"vanishing: seed {seed}: {sum(count for count, _ in told)} calls, {len(faults)} violations\n"
    )
    return int(bool(faults))


def _rounds(
    seed: str, worker: int, end: float, chosen: tuple[Sequence[str], str]
) -> tuple[int, list[str]]:
    """Draw calls and fates until the time is over; return the number of calls, and the faults."""
    dice, faults, count = random.Random(seed), list[str](), 0
    calls, only = chosen
    pairs = [(call, fate) for call in calls for fate in FATES if only in {"", f"{call} {fate}"}]
    with TemporaryDirectory(prefix="vanish-") as folder, user_shell(Path(folder)) as shell:
        while True:
            dice.shuffle(pairs)
            for call, fate in pairs:
                mark = f"m{worker}x{count}x{dice.randrange(10**6)}"
                faults += _one(shell, dice, call, fate, mark)
                count += 1
                if time.monotonic() >= end:
                    return count, faults


def _one(shell: Shell, dice: random.Random, call: str, fate: str, mark: str) -> list[str]:
    """Make one call while the daemon meets its fate; return what was wrong."""
    shell.begin()
    pid: int = shell.json("sessiond status --json")["pid"]
    words = [word.replace(MARK, mark) for word in CALLS[call]]
    program = [shell.command] if call in COMMANDS else [sys.executable]
    began = time.monotonic()
    process = subprocess.Popen(
        [*program, *words],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.PIPE if call in LIVE else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if call in LIVE:
        _meet_live(shell, dice, fate, (pid, process))
    else:
        time.sleep(dice.uniform(0, 0.4))
        _meet(shell, dice, fate, pid)
    try:
        said, error = process.communicate(timeout=BOUND_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [f"{call} {fate}: no end in {BOUND_SECONDS:.0f} s"]
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    took = time.monotonic() - began
    return [
        f"{call} {fate}: {fault} ({took:.1f} s)"
        for fault in _judge(shell, call, process.returncode, (said, error), mark)
    ]


def _meet_live(
    shell: Shell, dice: random.Random, fate: str, who: tuple[int, subprocess.Popen[str]]
) -> None:
    """Let the daemon meet its fate as a connected client calls: right behind the call, or right before."""
    pid, process = who
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()  # it is connected, or ended with an error
    is_first, pause = dice.random() < 0.5, dice.uniform(0, 0.1)
    fated = threading.Thread(target=_meet, args=(shell, dice, fate, pid))
    if is_first:
        fated.start()
        time.sleep(pause)
    with suppress(BrokenPipeError):
        process.stdin.write("call\n")
        process.stdin.flush()
    if not is_first:
        time.sleep(pause)
        fated.start()
    fated.join()


def _meet(shell: Shell, dice: random.Random, fate: str, pid: int) -> None:
    """Let the daemon meet its fate. It may have ended by itself."""
    with suppress(ProcessLookupError):
        match fate:
            case "kill":
                os.kill(pid, signal.SIGKILL)
            case "stop":
                os.kill(pid, signal.SIGTERM)
            case "hang":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(dice.uniform(0.1, 1.5))
                os.kill(pid, signal.SIGCONT)
            case "hang, kill":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(dice.uniform(0.1, 1.5))
                os.kill(pid, signal.SIGKILL)
            case "silent":
                _listen_silently(shell, dice.uniform(0.1, 1.5), pid)
            case _:
                for path in Path(shell.environment["XDG_RUNTIME_DIR"]).rglob("*.sock"):
                    path.unlink(missing_ok=True)


def _listen_silently(shell: Shell, seconds: float, pid: int) -> None:
    """Listen in the place of a killed daemon and answer nobody for a while, as a supervisor whose service fails."""
    for path in Path(shell.environment["XDG_RUNTIME_DIR"]).rglob("*.sock"):
        own = path.with_suffix(".silent")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(own))
            listener.listen()
            own.replace(path)
            os.kill(pid, signal.SIGKILL)
            time.sleep(seconds)
            path.unlink(missing_ok=True)


def _judge(shell: Shell, call: str, status: int, words: tuple[str, str], mark: str) -> list[str]:
    """Return what was wrong about the end of a call, its marks in files, and the next command."""
    faults: list[str] = []
    said, error = words
    is_program = call not in COMMANDS
    if status < 0 or (not is_program and "Traceback" in error) or "bug" in error:
        faults.append(f"status {status}, {error[-300:]!r}")
    if status and not is_program and not (error.startswith("sessiond: ") or said):
        faults.append(f"status {status} without a word: {error[-300:]!r}")
    if call.startswith(("python", "async")) and status and "sessiond_client" not in error:
        faults.append(f"status {status}, {error[-300:]!r}")
    if status and call in LIVE and not ADVICE.search(error):
        faults.append(f"status {status} without a word of what to do: {error[-300:]!r}")
    if status and call in ANSWERED:
        faults.append(f"status {status}, where a new daemon could answer: {error[-300:]!r}")
    listed = shell.run("sessiond list --json --archived any --drafts")
    if listed.returncode:
        faults.append(f"the next list ends with {listed.returncode}: {listed.stderr[-300:]!r}")
    writes = call.endswith(("append", "label", "fork")) or call not in LIVE
    if writes and any(MARK in word for word in CALLS[call]):
        count = _count(shell, mark)
        if count > 1 or (not status and count != 1):
            faults.append(f"status {status}, and stored {count} times; {error[-200:]!r}")
    return faults


def _count(shell: Shell, mark: str) -> int:
    """Return the number of lines in all sessions that have a mark."""
    files = shell.profile.glob("[spat]*/*.jsonl")
    return sum(mark in line for path in files for line in path.read_text("utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
