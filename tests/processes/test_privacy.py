"""Privacy: other users of the machine see nothing of the sessions, under any umask."""

from __future__ import annotations

import json
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Link, Refused, request
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon, running

pytestmark = pytest.mark.slow

MARK = "hush-5f0c"


def test_files_and_the_socket_are_the_users_own(
    socket_path: Path, home: Path, tmp_path: Path
) -> None:
    exported = tmp_path / "exported.jsonl"
    # The data folder does not exist yet.
    daemon = Daemon(socket_path.parent / "run" / "s", home / "new" / "data")
    daemon.log.parent.mkdir(mode=0o700)
    with running(daemon, umask=0):
        with daemon.connect() as link:
            fill(link)
            link.ask("session/export", session_id=SESSION, format="native", path=str(exported))
        paths = [daemon.home, *daemon.home.rglob("*")]
        found = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in paths}
        assert {path: mode for path, mode in found.items() if mode not in (0o600, 0o700)} == {}
        names = " ".join(found)
        # A look at nothing would find nothing wrong.
        for part in ("sessions/", "pending/", "locks/", "catalog.sqlite", "daemon.lock"):
            assert part in names
        for path, mode in found.items():
            assert mode == (0o700 if Path(path).is_dir() else 0o600), path
        assert stat.S_IMODE(daemon.socket_path.lstat().st_mode) == 0o600
        assert stat.S_IMODE(daemon.socket_path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(exported.stat().st_mode) == 0o600


def fill(link: Link) -> None:
    """Make a session, a draft and an import."""
    link.ask("session/create", cwd="/p", session_id=SESSION, title=f"title {MARK}")
    link.say(SESSION, f"user {MARK}")
    reply = {"role": "assistant", "content": [{"type": "text", "text": f"reply {MARK}"}]}
    last = link.ask("session/append", session_id=SESSION, message=reply)["leaf_id"]
    link.ask("session/create", cwd="/p", session_id="session-b")
    link.say("session-b", f"draft {MARK}")
    link.ask("session/label", session_id=SESSION, entry_id=last, label=f"label {MARK}")
    content = link.ask("session/export", session_id=SESSION, format="native")["content"]
    link.ask("session/import", content=content, format="native", cwd="/p")


WRONG: list[dict[str, Any]] = [
    {"message": {"content": MARK}},
    {"message": {"role": 7, "content": MARK}},
    {"message": MARK},
    {"entry": {"type": "message", MARK: MARK, "message": {"role": "user"}, "seq": 1}},
    {"entries": [{"type": "message", "message": {"role": "user", "content": MARK}}, MARK]},
    {"message": {"role": "user", "content": MARK}, MARK: 1},
    {"message": {"role": "user", "content": MARK}, "expected": {"leaf_id": MARK}},
    {"message": {"role": "user", "content": MARK}, "head": MARK + "/"},
]


def test_no_content_is_ever_logged(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.ask("initialize", client_id="a", client_info={"name": "a", "more": MARK})
        fill(link)
        # Every refusal that is near content.
        with daemon.connect() as watching:
            watching.ask("session/subscribe", session_id=SESSION, after={"seq": 0})
            for params in WRONG:
                link.refusal("session/append", session_id=SESSION, **params)
            link.refusal(f"session/{MARK}")
            link.refusal("session/import", content=f'{{"type":"session","x":"{MARK}"', cwd="/p")
            link.send(f'{{"id":1,"params":"{MARK}"\n'.encode())
            assert link.message()["error"]["code"] == -32700
        # A file with a bad line, one with a bad header and one with a torn end.
        (good,) = daemon.files(SESSION)
        lines = good.read_bytes()
        header, _, rest = lines.partition(b"\n")
        bad = f'{{"type":"message","{MARK}":'.encode()
        for name, content in (
            ("session-c", header.replace(b"session-a", b"session-c") + b"\n" + bad + b"\n" + rest),
            ("session-d", bad + b"\n" + rest),
            ("session-e", header.replace(b"session-a", b"session-e") + b"\n" + rest + bad),
        ):
            path = good.with_name(f"2026-01-01T00-00-00-000000_{name}.jsonl")
            path.write_bytes(content)
            link.send(request(name, "session/append", session_id=name, message={"role": "user"}))
            answer = link.message()
            assert ("error" in answer) == (name != "session-e"), json.dumps(answer)
    with daemon.connect() as link:
        # A frame without end, and one that breaks off.
        link.send(b'{"id":1,"method":"session/append","params":{"message":"' + MARK.encode())
    with daemon.connect() as link:
        link.send(f"GET /{MARK} HTTP/1.1\r\n\r\n".encode())
        assert link.rest() == b""
    said = daemon.said()
    assert MARK not in said
    assert '"serving"' in said


BUG = f"""
from sessiond.cli import main
from sessiond.session.draft import Draft

def with_a_bug(self, *given):
    raise ValueError("about {MARK}")

Draft.stage_run = Draft.require_writable = with_a_bug
main()
"""


@pytest.mark.parametrize("more", [{}, {"idempotency_key": "once"}], ids=["in a run", "by itself"])
def test_a_bug_is_logged_by_its_place_and_answered_by_its_number(
    socket_path: Path, home: Path, more: dict[str, str]
) -> None:
    daemon = Daemon(socket_path, home / "data", program=[sys.executable, "-P", "-c", BUG])
    daemon.start()
    try:
        with daemon.connect() as link:
            link.ask("session/create", cwd="/p", session_id=SESSION)
            message = {"role": "user", "content": MARK}
            with pytest.raises(Refused) as caught:
                link.ask("append", session_id=SESSION, message=message, **more)
            assert link.ask("server/ping") is not None
        assert daemon.end(signal.SIGTERM) == 0
    finally:
        daemon.discard()
    said = daemon.said()
    assert caught.value.kind == "internal"
    assert MARK not in str(caught.value.data)
    assert caught.value.data["incident_id"] in said
    assert "with_a_bug" in said
    assert "ValueError" in said
    assert MARK not in said
