"""The conformance kit: every client of this repository passes it, and it can fail.

The kit runs as its users run it, as a process of its own, against a real daemon. The second
half puts a dishonest proxy between the two: each kind of lie must be found by the case for it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.line_proxy import Pass, line_proxy
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop]

REPOSITORY = Path(__file__).resolve().parents[2]
KIT = REPOSITORY / "tests" / "conformance"
CLIENTS = Path(__file__).with_name("conformance_clients.py")
MEMORY_DAEMON = Path(__file__).with_name("conformance_memory_daemon.py")
CASES = sorted(path.stem for path in (KIT / "cases").glob("*.json"))
# What only the wire can express; a client's surface has no word for it.
BELOW_A_CLIENT = {name for name in CASES if name.startswith(("wire-", "lines-", "frames-"))}
ABOUT_FILES = {"leases-end-with-the-daemon", "open-by-path-and-entry"}
PIPELINED = {name for name in CASES if name.startswith("pipelined-")}


def run_kit(*arguments: str) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the outcome of each case: ok, SKIP, or the reason of a failure."""
    done = subprocess.run(
        [sys.executable, str(KIT / "run.py"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=240,
        check=False,
    )
    plan, *lines = done.stdout.splitlines()
    assert plan == f"1..{len(lines)}", done.stdout
    said = {}
    for line in lines:
        found = re.fullmatch(r"(ok|not ok) \d+ - (\S+)(?: # (.*))?", line)
        assert found is not None, line
        outcome, name, why = found.groups()
        said[name] = "ok" if outcome == "ok" and why is None else (why or "no reason")
    return done.returncode, said


def with_daemon(program: str, *arguments: str) -> tuple[int, dict[str, str]]:
    """Let the kit start its daemons by a program that stands for `sessiond`."""
    command = f"{shlex.quote(program)} serve --socket {{socket}} --home {{home}}"
    return run_kit("--daemon", command, *arguments)


def skipped(said: dict[str, str]) -> set[str]:
    """Return the skipped cases; require that all other cases passed."""
    assert {name: why for name, why in said.items() if why != "ok" and "SKIP" not in why} == {}
    return {name for name, why in said.items() if why != "ok"}


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("framing", "other"), [("ndjson", "frames-"), ("content-length", "lines-")]
)
def test_the_daemon_passes_in_both_framings(
    framing: str, other: str, sessiond_program: str
) -> None:
    code, said = with_daemon(sessiond_program, "--framing", framing)
    assert skipped(said) == {name for name in CASES if name.startswith(other)}
    assert (code, sorted(said)) == (0, CASES)


def test_a_daemon_with_its_sessions_in_memory_passes(home: Path) -> None:
    """Run the cases, but for those that end the daemon, with which the memory ends."""
    daemon = Daemon(home / "s", home / "h", program=(sys.executable, str(MEMORY_DAEMON)))
    with running(daemon):
        daemon.connect().close()
        code, said = run_kit("--socket", str(daemon.socket_path), "--store", "database")
        daemon.require_running()
    restarting = {
        name for name in CASES if '"restart"' in (KIT / "cases" / f"{name}.json").read_text()
    }
    not_lines = {name for name in CASES if name.startswith("frames-")}
    assert skipped(said) == restarting | ABOUT_FILES | not_lines
    assert (code, sorted(said)) == (0, CASES)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("client", "beyond"),
    [
        ("anyio", set[str]()),
        # Its code is made of the other client's (scripts/unasync).
        pytest.param("blocking", PIPELINED, marks=pytest.mark.search),
        ("stdlib", set[str]()),
    ],
)
def test_the_clients_pass(client: str, beyond: set[str], sessiond_program: str) -> None:
    command = shlex.join([sys.executable, str(CLIENTS), client])
    code, said = with_daemon(sessiond_program, "--client", command)
    assert skipped(said) == BELOW_A_CLIENT | beyond
    assert (code, sorted(said)) == (0, CASES)


def test_a_daemon_that_runs_is_not_restarted(server: Daemon) -> None:
    server.connect().close()
    code, said = run_kit("--socket", str(server.socket_path))
    assert {"restart-is-another-instance", "wire-stop"} <= skipped(said)
    assert code == 0
    server.require_running()


@pytest.mark.conformance
def test_every_method_is_called_by_a_case() -> None:
    schema = json.loads((REPOSITORY / "protocol.schema.json").read_bytes())
    text = "".join((KIT / "cases" / f"{name}.json").read_text("utf-8") for name in CASES)
    called = set(re.findall(r'"method": "([^"]+)"', text))
    # A subscription is a step of its own, so that clients can have their own word for it.
    called |= {"session/subscribe"} if '"do": "subscribe"' in text else set()
    assert sorted(set(schema["methods"]) - called) == []


@pytest.mark.conformance
def test_every_method_that_writes_is_refused_to_a_connection_that_reads() -> None:
    schema = json.loads((REPOSITORY / "protocol.schema.json").read_bytes())
    case = json.loads((KIT / "cases" / "access-read-changes-nothing.json").read_bytes())
    refused = {
        step["method"] for step in case["steps"] if step.get("on") == "r" and "method" in step
    }
    writing = {name for name, method in schema["methods"].items() if method["access"] == "write"}
    assert sorted(writing - refused) == []


class Liar:
    """A lie of a proxy: it changes, once, the daemon's first line with the needle."""

    def __init__(self, needle: bytes, lie: Pass | None) -> None:
        self.needle = needle
        self.lie = lie
        self.late: list[bytes] = []
        self.has_lied = False

    def pass_on(self, line: bytes) -> list[bytes]:
        if self.late:
            return [line, self.late.pop()]
        if self.has_lied or self.needle not in line:
            return [line]
        self.has_lied = True
        if self.lie is not None:
            return self.lie(line)
        self.late.append(line)  # behind the one that follows it
        return []


def changed(old: bytes, new: bytes) -> Pass:
    return lambda line: [line.replace(old, new)]


EVENT = b'"method":"session/event"'
LIES: dict[str, tuple[str, Liar]] = {
    "an honest proxy": ("", Liar(b"no such text", None)),
    "an event is lost": ("subscribe-from-now", Liar(EVENT, lambda line: [])),
    "an event comes twice": ("subscribe-from-now", Liar(EVENT, lambda line: [line, line])),
    "events change places": ("subscribe-from-now", Liar(EVENT, None)),
    "synced is lost": ("subscribe-replays", Liar(b"session/synced", lambda line: [])),
    "a zero is lost": ("big-integers-and-decimals", Liar(b'"entry":', changed(b"1.50", b"1.5"))),
    "a digit changes": (
        "big-integers-and-decimals",
        Liar(b'"entry":', changed(b"9007199254740993", b"9007199254740992")),
    ),
    "members change places": (
        "key-order-and-unknown-members",
        Liar(b'"entries":[{"seq"', changed(b'"z":0,"a":1', b'"a":1,"z":0')),
    ),
    "a character changes": ("text-beyond-ascii", Liar(b'"next_seq"', changed("é".encode(), b"e"))),
    "an atom comes apart": ("append-atom", Liar(b'"atom":[2,3]', changed(b"[2,3]", b"[2,2]"))),
    "a retry passes for new": (
        "retry-same-ids",
        Liar(b'"duplicate":true', changed(b'"duplicate":true', b'"duplicate":false')),
    ),
    "a refusal has another code": ("labels", Liar(b"-32030", changed(b"-32030", b"-32033"))),
}


@pytest.mark.parametrize("what", LIES)
def test_a_lie_fails_the_case_for_it(what: str, server: Daemon, tmp_path: Path) -> None:
    case, liar = LIES[what]
    honest = sorted({case for case, _ in LIES.values() if case})
    server.connect().close()
    place = server.socket_path.with_name("proxy")
    with line_proxy(place, server.socket_path, answers=liar.pass_on):
        code, said = run_kit("--socket", str(place), *([case] if case else honest))
    if case:
        assert liar.has_lied
        assert code == 1
        assert said[case] != "ok"
        assert "SKIP" not in said[case]
    else:
        assert (code, skipped(said)) == (0, set())
