"""Ten thousand sessions in a real daemon: listed, filtered, paged, resolved beside four writers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kit.calls import part_of
from tests.kit.journals import text
from tests.kit.lines import spelled
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import native_header, stored_message
from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.faults import attached

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSIONS: Final = 10_000
PROJECTS: Final = 40
WRITERS: Final = 4
WRITTEN: Final = 150
IDS: Final = "[].id"
# Three pages of a hundred: what must not happen is that a page costs a look at every file.
LOOKS_MAX: Final = 300
LOOK: Final = "-session.jsonl"

WRITER: Final = """
import json, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
answers = link.makefile("rb")
def ask(method, **params):
    link.sendall(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\\n")
    answer = json.loads(answers.readline())
    assert "result" in answer, answer
    return answer["result"]
session = {"session_id": sys.argv[2], "cwd": "/writers", "title": "Writer " + sys.argv[2]}
ask("session/create", persist="immediate", **session)
for number in range(int(sys.argv[3])):
    message = {"role": "assistant", "content": "x" * 200, "usage": {"input": 1, "output": 1}}
    assert ask("append", session_id=sys.argv[2], message=message)["seq"] == number + 1
"""


def name(number: int) -> str:
    return f"{number:05d}-session"


@pytest.mark.timeout(300)
def test_ten_thousand_sessions_while_four_write(
    tmp_path: Path, socket_path: Path, strace: str
) -> None:
    daemon = Daemon(socket_path, tmp_path / "data")
    daemon.home.mkdir(mode=0o700)
    folder = daemon.profile / "sessions"
    folder.mkdir(parents=True)
    # A question and an answer each.
    for number in range(SESSIONS):
        header = native_header(name(number), f"/project/{number % PROJECTS}")
        header |= {"title": f"Title {number} of many", "tags": [f"tag-{number % 3}"]}
        at = f"2026-01-{1 + number % 28:02d}T00:00:00.000Z"
        said = [stored_message("e0", None), stored_message("e1", "e0", "assistant")]
        lines = spelled(header, *({**one, "timestamp": at} for one in said))
        path = folder / f"2026-01-01T00-00-00-{number:06d}_{name(number)}.jsonl"
        path.write_bytes(text(lines))
    with running(daemon), daemon.connect() as link:
        everything = link.listed(limit=3000)
        assert sorted(part_of(everything, IDS)) == [name(number) for number in range(SESSIONS)]
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(daemon.socket_path), f"writer-{n}", str(WRITTEN)]
            )
            for n in range(WRITERS)
        ]
        try:
            looks = ask_beside_writers(link, daemon, strace)
        finally:
            codes = [writer.wait(PATIENCE_SECONDS) for writer in writers]
        assert codes == [0] * WRITERS
        assert sorted(looks)[len(looks) // 2] < LOOKS_MAX, looks
        written = link.listed(cwd="/writers/")
        assert {session["seq"] for session in written} == {WRITTEN}
        assert {session["usage"]["total_tokens"] for session in written} == {2 * WRITTEN}
        before = link.listed(limit=3000, sort="title")
        for path in daemon.profile.glob("catalog.sqlite*"):
            path.unlink()
        trace = daemon.home / "trace"
        with attached(strace, daemon.pid, "%file", "-o", str(trace)):
            after = link.listed(limit=3000, sort="title")
        # A tracer that sees nothing would have found nothing wrong.
        assert trace.read_text("utf-8").count(LOOK) >= SESSIONS
        for row in (*before, *after):
            # Epochs of sessions that are not open were nowhere else.
            del row["epoch"]
        assert after == before
        resolved(link)
        # The next list notices files that are removed and put back by hand.
        paths = [daemon.files(name(number))[0] for number in range(10)]
        for path in paths:
            path.rename(daemon.home / path.name)
        assert link.ask("session/list", query="title 1 of", limit=5)["sessions"] == []
        for path in paths:
            (daemon.home / path.name).rename(path)
        (back,) = link.ask("session/list", query="title 1 of", limit=5)["sessions"]
        assert back["id"] == name(1)


def ask_beside_writers(link: Link, daemon: Daemon, strace: str) -> list[int]:
    """Make all kinds of list requests again and again.

    Return how often the daemon looked at files of the ten thousand for three pages, each time.
    """
    looks: list[int] = []
    trace = daemon.home / "trace"
    for _ in range(5):
        old = [one for one in link.listed(limit=1000) if one["cwd"] != "/writers"]
        assert sorted(part_of(old, IDS)) == [name(number) for number in range(SESSIONS)]
        project = link.listed(cwd="/project/7", limit=50, sort="created_at")
        assert sorted(part_of(project, IDS)) == [name(n) for n in range(7, SESSIONS, PROJECTS)]
        tagged = link.listed(tags=["tag-1"], limit=2000)
        assert len(tagged) == len(range(1, SESSIONS, 3))
        resolved(link)
        with attached(strace, daemon.pid, "%file", "-o", str(trace)):
            for more in ({}, {"query": "TITLE 77"}, {}):
                link.ask("session/list", limit=100, **more)
        looks.append(trace.read_text("utf-8").count(LOOK))
    return looks


def resolved(link: Link) -> None:
    for ref in (name(4711), "04711", "Title 4711 of many", "TITLE 4711 OF MANY", "e 4711 o"):
        assert link.ask("session/resolve", ref=ref)["session"]["id"] == name(4711)
    refused = link.refusal("session/resolve", ref="0471")
    assert refused.kind == "ambiguous_ref"
    matches = refused.data["matches"]
    assert sorted(one["session_id"] for one in matches) == [name(n) for n in range(4710, 4720)]
