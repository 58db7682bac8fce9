"""Real programs that know nothing of sessiond write to a file that the daemon has open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.kit.link import Link, request
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.pi import node_and_pi
from tests.kit.sessions import SESSION, stored_message
from tests.processes import held_daemon
from tests.processes.harness.child import Child, Start
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.search]

LINE = json.dumps(stored_message("%s", None, content="theirs")) + "\n"
ONE_APPEND = "import sys; open(sys.argv[1], 'ab').write(sys.argv[2].encode())"


def events(link: Link, until: int) -> list[tuple[int, str, bool]]:
    """Return seq, id and whether another program made it, of every event up to a seq."""
    found: list[tuple[int, str, bool]] = []
    while not found or found[-1][0] < until:
        told = link.event()
        external = told.get("origin", {}).get("external", False)
        found.append((told["seq"], told["entry"]["id"], external))
    return found


# -- between look and write ------------------------------------------------------------------


@pytest.mark.parametrize("cut", [20, None], ids=["half a line", "a line without its newline"])
def test_half_a_line_between_our_look_and_our_write_leaves_both_records_whole(
    socket_path: Path, home: Path, cut: int | None
) -> None:
    folder = home / "gate"
    folder.mkdir()
    theirs = LINE % "bbbbbbb1"
    # A daemon that waits before a write as long as the folder has a pipe `hold`.
    program = [sys.executable, held_daemon.__file__, str(folder)]
    with (
        running(Daemon(socket_path, home / "data", program=program)) as daemon,
        daemon.connect() as link,
        daemon.connect() as watcher,
    ):
        link.create("first")
        watcher.ask("session/subscribe", session_id=SESSION)
        (path,) = daemon.files(SESSION)
        hold = folder / "hold"
        os.mkfifo(hold)
        message = {"role": "user", "content": held_daemon.WORD.decode()}
        link.send(
            request("a", "session/append", session_id=SESSION, message=message, idempotency_key="k")
        )
        soon((folder / "reached").exists)
        half = theirs[:-1] if cut is None else theirs[:cut]
        subprocess.run([sys.executable, "-c", ONE_APPEND, str(path), half], check=True)
        with hold.open("wb"):
            hold.unlink()
        answer = link.answer("a")
        ours = answer["entries"][0]["id"]
        again = link.ask("session/append", session_id=SESSION, message=message, idempotency_key="k")
        assert (again["duplicate"], again["seq"]) == (True, answer["seq"])
        _, *lines = path.read_bytes().split(b"\n")
        assert lines.pop() == b""
        where = [seq for seq, entry in enumerate(lines, 1) if ours.encode() in entry]
        assert where == [answer["seq"]] == [3]
        found = events(watcher, 3)
        if cut is None:
            # It was whole but for its newline.
            assert found == [(2, "bbbbbbb1", True), (3, ours, False)]
        else:
            assert found == [(3, ours, False)]
            with pytest.raises(json.JSONDecodeError):
                json.loads(lines[1])
        info = link.ask("session/get", session_id=SESSION)["session"]
        assert (info["seq"], info["problems"], info["read_only"]) == (
            3,
            int(cut is not None),
            False,
        )


# -- much at once ----------------------------------------------------------------------------

MIB = 1 << 20


def test_what_others_append_costs_a_piece_of_it_in_memory_however_much_it_is(
    daemon: Daemon,
) -> None:
    theirs = LINE.replace("theirs", "x" * 16_000).replace("%s", "%08d").encode()
    count = 64 * MIB // len(theirs)
    with daemon.connect() as link, daemon.connect() as watcher:
        link.create("ours")
        watcher.ask("session/subscribe", session_id=SESSION)
        (path,) = daemon.files(SESSION)
        # A peak of its own begins here.
        Path(f"/proc/{daemon.pid}/clear_refs").write_text("5", "utf-8")
        before = daemon.memory()
        text = b"".join(theirs % n for n in range(count))
        with path.open("ab", buffering=0) as file:
            file.write(text)
        heard = events(watcher, count + 1)
        assert [seq for seq, _, _ in heard] == list(range(2, count + 2))
        assert [entry_id for _, entry_id, _ in heard] == [f"{n:08d}" for n in range(count)]
        assert link.say(SESSION, "ours")["seq"] == count + 2
        assert daemon.memory() - before < len(text) // 2


# -- many at once ----------------------------------------------------------------------------

WRITERS, LINES, CLIENTS, APPENDS = 4, 60, 8, 20
APPENDER = """
import sys
path, name, line, count = sys.argv[1:]
sys.stdin.readline()
for n in range(int(count)):
    with open(path, "ab", buffering=0) as file:
        file.write((line % f"{name}-{n}").encode())
"""


def test_other_programs_and_clients_at_once_lose_no_line(daemon: Daemon, started: Start) -> None:
    with daemon.connect() as link:
        link.create("first")
        (path,) = daemon.files(SESSION)
    writers = [
        started(sys.executable, "-c", APPENDER, path, f"theirs{n}", LINE, LINES)
        for n in range(WRITERS)
    ]
    theirs = share(daemon, Shared(SESSION, path, first=1), writers)
    assert theirs == {f"theirs{n}-{k}" for n in range(WRITERS) for k in range(LINES)}


def test_four_session_managers_of_pi_and_eight_clients_lose_no_line(
    daemon: Daemon, started: Start, home: Path, absent: Callable[[str], NoReturn]
) -> None:
    """pi itself, from npm: each process writes all the time and never reads foreign lines."""
    node, manager = node_and_pi(absent)
    path = home / "pi.jsonl"
    path.write_bytes(PI_FILE)
    with daemon.connect() as link:
        session_id = link.ask("session/open", path=str(path))["session"]["id"]
    driver = Path(__file__).with_name("pi_writer.mjs")
    environment = {**os.environ, "HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")}
    writers = [
        started(node, driver, manager, path, f"pi-{n}", LINES, env=environment)
        for n in range(WRITERS)
    ]
    share(daemon, Shared(session_id, path, first=2), writers)
    texts = [json.loads(one)["message"]["content"] for one in path.read_bytes().split(b"\n")[3:-1]]
    assert {text for text in texts if text.startswith("pi-")} == {
        f"pi-{n} {k}" for n in range(WRITERS) for k in range(LINES)
    }


PI_FILE = (
    b'{"type":"session","version":3,"id":"0198c0de-0000-7000-8000-000000000000",'
    b'"timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    b'{"type":"message","id":"aaaaaaa1","parentId":null,"timestamp":"2026-01-15T10:30:00.000Z",'
    b'"message":{"role":"user","content":"hi","timestamp":1768473000000}}\n'
    b'{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","timestamp":"2026-01-15T10:30:01.000Z",'
    b'"message":{"role":"assistant","content":[{"type":"text","text":"hi"}],"api":"x","provider":"x",'
    b'"model":"m","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,'
    b'"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop",'
    b'"timestamp":1768473001000}}\n'
)


class Shared(NamedTuple):
    """A session file of `first` entries that is written to by many."""

    session_id: str
    path: Path
    first: int


def share(daemon: Daemon, shared: Shared, writers: Sequence[Child]) -> set[str]:
    """Let programs and clients write together, and check what each of them is promised.

    Return the ids of what the programs wrote.
    """
    total = shared.first + WRITERS * LINES + CLIENTS * APPENDS
    together = threading.Barrier(CLIENTS + 1)

    def client(number: int) -> tuple[list[tuple[int, str]], list[tuple[int, str, bool]]]:
        """Return the stored entries and all events."""
        with daemon.connect() as link, daemon.connect() as watcher:
            watcher.ask("session/subscribe", session_id=shared.session_id, signals=False)
            together.wait(PATIENCE_SECONDS)
            done: list[tuple[int, str]] = []
            for n in range(APPENDS):
                message = {"role": "user", "content": f"{number}-{n}", "timestamp": 1}
                answer = link.ask("session/append", session_id=shared.session_id, message=message)
                done.append((answer["seq"], answer["leaf_id"]))
            return done, events(watcher, total)

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, n) for n in range(CLIENTS)]
        together.wait(PATIENCE_SECONDS)
        for one in writers:
            one.tell("go")
        for one in writers:
            assert one.wait(PATIENCE_SECONDS) == 0
        # A wake-up that is lost would take for ever.
        results = [one.result(PATIENCE_SECONDS) for one in clients]
    _, *lines = shared.path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    in_file = [(seq, json.loads(line)["id"]) for seq, line in enumerate(lines, 1)]
    assert len(in_file) == total
    ours = {answer for done, _ in results for answer in done}
    assert len(ours) == CLIENTS * APPENDS
    assert ours <= set(in_file)
    expected = [(*one, one not in ours) for one in in_file[shared.first :]]
    for _, told in results:
        assert told == expected
    return {id_ for _, id_, external in expected if external}
