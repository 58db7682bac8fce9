"""Ten thousand sessions in a real daemon: listed, filtered, paged, resolved beside four writers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.link import Link, Refused
from tests.processes.harness.daemon import Daemon, running

pytestmark = pytest.mark.slow

SESSIONS: Final = 10_000
PROJECTS: Final = 40
WRITERS: Final = 4
WRITTEN: Final = 150
# Generous: what must not happen is that a page costs a look at every file.
PAGE_SECONDS: Final = 0.25

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


def make(folder: Path) -> None:
    """Ten thousand files of a question and an answer each."""
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        header = {
            "type": "session_header",
            "version": 1,
            "id": name(number),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": f"/project/{number % PROJECTS}",
            "title": f"Title {number} of many",
            "tags": [f"tag-{number % 3}"],
        }
        at = f"2026-01-{1 + number % 28:02d}T00:00:00.000Z"
        said = [("user", None), ("assistant", "e0")]
        lines: list[dict[str, Any]] = [header]
        for index, (role, parent) in enumerate(said):
            message = {"role": role, "content": "words"}
            entry = {"type": "message", "id": f"e{index}", "parent_id": parent, "timestamp": at}
            lines.append({**entry, "message": message})
        path = folder / f"2026-01-01T00-00-00-{number:06d}_{name(number)}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def daemon(tmp_path: Path, socket_path: Path) -> Iterator[Daemon]:
    made = Daemon(socket_path, tmp_path / "data")
    made.home.mkdir(mode=0o700)
    make(made.profile / "sessions")
    with running(made):
        yield made


def pages(link: Link, **params: Any) -> list[dict[str, Any]]:
    """Every session of a list, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = link.ask("session/list", cursor=cursor, **params)
        found += page["sessions"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def ids(sessions: list[dict[str, Any]]) -> list[str]:
    return [session["id"] for session in sessions]


def timed_page(link: Link, **params: Any) -> float:
    start = time.monotonic()
    link.ask("session/list", limit=100, **params)
    return time.monotonic() - start


@pytest.mark.timeout(300)
def test_ten_thousand_sessions_while_four_write(daemon: Daemon) -> None:
    with daemon.connect() as link:
        everything = pages(link, limit=3000)
        assert sorted(ids(everything)) == [name(number) for number in range(SESSIONS)]
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(daemon.socket_path), f"writer-{n}", str(WRITTEN)]
            )
            for n in range(WRITERS)
        ]
        try:
            times = ask_beside_writers(link)
        finally:
            codes = [writer.wait(60) for writer in writers]
        assert codes == [0] * WRITERS
        assert sorted(times)[len(times) // 2] < PAGE_SECONDS
        written = pages(link, cwd="/writers/")
        assert {session["seq"] for session in written} == {WRITTEN}
        assert {session["usage"]["total_tokens"] for session in written} == {2 * WRITTEN}
        before = pages(link, limit=3000, sort="title")
        lose_catalog(daemon)
        after = pages(link, limit=3000, sort="title")
        # Epochs of sessions that are not open were nowhere else.
        assert list(map(without_epoch, after)) == list(map(without_epoch, before))
        resolved(link)
        remove_by_hand(daemon, link)


def ask_beside_writers(link: Link) -> list[float]:
    """Make all kinds of list requests again and again; return the times of the pages."""
    times: list[float] = []
    for _ in range(5):
        old = [one for one in pages(link, limit=1000) if one["cwd"] != "/writers"]
        assert sorted(ids(old)) == [name(number) for number in range(SESSIONS)]
        project = pages(link, cwd="/project/7", limit=50, sort="created_at")
        assert sorted(ids(project)) == [name(n) for n in range(7, SESSIONS, PROJECTS)]
        tagged = pages(link, tags=["tag-1"], limit=2000)
        assert len(tagged) == len(range(1, SESSIONS, 3))
        resolved(link)
        times += [timed_page(link), timed_page(link, query="TITLE 77"), timed_page(link)]
    return times


def resolved(link: Link) -> None:
    for ref in (name(4711), "04711", "Title 4711 of many", "TITLE 4711 OF MANY", "e 4711 o"):
        assert link.ask("session/resolve", ref=ref)["session"]["id"] == name(4711)
    with pytest.raises(Refused) as refused:
        link.ask("session/resolve", ref="0471")
    assert refused.value.kind == "ambiguous_ref"
    matches = refused.value.data["matches"]
    assert sorted(one["session_id"] for one in matches) == [name(n) for n in range(4710, 4720)]


def lose_catalog(daemon: Daemon) -> None:
    for path in daemon.profile.glob("catalog.sqlite*"):
        path.unlink()


def without_epoch(session: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in session.items() if key != "epoch"}


def remove_by_hand(daemon: Daemon, link: Link) -> None:
    """Check that the next list notices files that are removed and put back by hand."""
    paths = [daemon.files(name(number))[0] for number in range(10)]
    for path in paths:
        path.rename(daemon.home / path.name)
    left = link.ask("session/list", query="title 1 of", limit=5)["sessions"]
    assert ids(left) == []
    for path in paths:
        (daemon.home / path.name).rename(path)
    (back,) = link.ask("session/list", query="title 1 of", limit=5)["sessions"]
    assert back["id"] == name(1)
