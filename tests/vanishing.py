"""`make search PART=vanishing`: the daemon vanishes at a drawn moment of each command, and of clients.

    python -m tests.vanishing --minutes 2 --seed 7           rounds until the time is over
    python -m tests.vanishing --seed 7 --only "append kill"  one command and one fate

Law: each call ends in its time, with the right answer or with an error that says what to do; what reads or is
named by its ids is answered. What a call stores is stored once at most, and exactly once if the call said so.
The next command works.

Exit 0 = the law held.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

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
CALLS: Final[Mapping[str, Sequence[str]]] = {
    **{name: words.split() for name, words in COMMANDS.items()},
    **PROGRAMS,
}
ANSWERED: Final = frozenset(
    {
        *("list", "search", "show", "tree", "context", "turns", "tail", "heads", "usage", "forest"),
        *("trash", "brief", "verify", "dump", "plan", "label list", "secret list", "export"),
        *("append", "append twice", "stub append", "stub context"),
        *("python get", "python append", "async append", "async list"),
    }
)
"""Calls that read, or whose ids name them: a new daemon answers them."""
FATES: Final = ("kill", "stop", "hang", "hang, kill", "socket")


def main(words: Sequence[str] | None = None) -> int:
    """Run rounds; return 1 if the law was broken."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="", help="a command and a fate, as a failure names them")
    options = parser.parse_args(words)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    sys.stdout.write(f"vanishing: SEED={seed}\n")
    end = time.monotonic() + options.minutes * 60
    with ThreadPoolExecutor(WORKERS) as workers:
        rounds = [
            workers.submit(_rounds, f"{seed} {at}", at, end, options.only) for at in range(WORKERS)
        ]
        told = [one.result() for one in rounds]
    faults = [fault for _, found in told for fault in found]
    for fault in faults:
        sys.stdout.write(f"VIOLATION: {fault}\n")
    sys.stdout.write(
        f"vanishing: seed {seed}: {sum(count for count, _ in told)} calls, {len(faults)} violations\n"
    )
    return int(bool(faults))


def _rounds(seed: str, worker: int, end: float, only: str) -> tuple[int, list[str]]:
    """Draw calls and fates until the time is over; return the number of calls, and the faults."""
    dice, faults, count = random.Random(seed), list[str](), 0
    pairs = [(call, fate) for call in CALLS for fate in FATES if only in {"", f"{call} {fate}"}]
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
    program = [sys.executable] if call in PROGRAMS else [shell.command]
    began = time.monotonic()
    process = subprocess.Popen(
        [*program, *words],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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
            case _:
                for path in Path(shell.environment["XDG_RUNTIME_DIR"]).rglob("*.sock"):
                    path.unlink(missing_ok=True)


def _judge(shell: Shell, call: str, status: int, words: tuple[str, str], mark: str) -> list[str]:
    """Return what was wrong about the end of a call, its marks in files, and the next command."""
    faults: list[str] = []
    said, error = words
    is_program = call in PROGRAMS
    if status < 0 or (not is_program and "Traceback" in error) or "bug" in error:
        faults.append(f"status {status}, {error[-300:]!r}")
    if status and not is_program and not (error.startswith("sessiond: ") or said):
        faults.append(f"status {status} without a word: {error[-300:]!r}")
    if call.startswith(("python", "async")) and status and "sessiond_client" not in error:
        faults.append(f"status {status}, {error[-300:]!r}")
    if status and call in ANSWERED:
        faults.append(f"status {status}, where a new daemon could answer: {error[-300:]!r}")
    listed = shell.run("sessiond list --json --archived any --drafts")
    if listed.returncode:
        faults.append(f"the next list ends with {listed.returncode}: {listed.stderr[-300:]!r}")
    if any(MARK in word for word in CALLS[call]):
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
