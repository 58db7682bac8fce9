"""A folder of pi's as a root, with pi at work in it: both append, and both see one conversation."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.kit.pi import node_and_pi
from tests.processes.harness.daemon import Daemon
from tests.processes.test_copies_in_pi import SAMPLE, context

pytestmark = [pytest.mark.slow, pytest.mark.search]

Pi = Callable[..., Any]


@pytest.fixture
def pi(home: Path, absent: Callable[[str], NoReturn]) -> Iterator[Pi]:
    """Asks pi's session manager in a node process."""
    node, manager = node_and_pi(absent)
    command = [str(node), str(Path(__file__).with_name("pi_beside.mjs")), str(manager)]
    environment = {**os.environ, "HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        tasks, answers = process.stdin, process.stdout
        assert tasks is not None
        assert answers is not None

        def ask(act: str, path: Path, **more: Any) -> Any:
            tasks.write(json.dumps({"do": act, "path": str(path), **more}).encode() + b"\n")
            tasks.flush()
            return json.loads(answers.readline())

        yield ask
        tasks.close()


def test_pi_and_clients_share_a_root(daemon: Daemon, tmp_path: Path, pi: Pi) -> None:
    root = tmp_path / "agent" / "sessions"
    folder = root / "--work-shop--"
    folder.mkdir(parents=True)
    path = folder / "2026-02-01T09-00-00-000Z_0197c1d2-0000-7000-8000-000000000001.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    before = path.read_bytes()
    with daemon.connect() as link, daemon.connect() as watcher:
        link.ask("catalog/roots", action="add", path=str(root), kind="pi")
        (session,) = link.ask("session/list", program="pi")["sessions"]
        session_id = session["id"]
        watcher.ask("session/subscribe", session_id=session_id)

        def agree(what: str) -> None:
            theirs = pi("context", path)
            assert theirs["context"] == context(link, session_id), what
            leaf = link.ask("session/get", session_id=session_id)["session"]["leaf_id"]
            assert theirs["leaf"] == leaf, what

        def pi_says(role: str, text: str) -> str:
            entry_id: str = pi("say", path, role=role, text=text)["id"]
            while (event := watcher.event())["entry"]["id"] != entry_id:
                pass
            assert event["origin"]["external"]
            assert event["entry"]["message"]["content"] == [{"type": "text", "text": text}]
            return entry_id

        agree("as it was")
        asked = pi_says("user", "what pi asks")
        agree("pi appended")
        answer = {"role": "assistant", "content": [{"type": "text", "text": "ours"}]}
        link.ask("session/append", session_id=session_id, message=answer | ANSWERED)
        agree("we appended")
        link.ask("session/branch", session_id=session_id, entry_id=asked)
        agree("we branched")
        pi_says("assistant", "pi answers at the branch")
        agree("pi appended below our branch")
        link.ask("session/label", session_id=session_id, entry_id=asked, label="here")
        agree("we labelled")
        link.ask("session/update", session_id=session_id, title="Shared with pi")
        agree("we renamed")
        kept = pi_says("user", "kept by the compaction")
        link.ask(
            "session/compact",
            session_id=session_id,
            summary="All before.",
            first_kept_entry_id=kept,
        )
        agree("we compacted")
        pi_says("assistant", "below the compaction")
        agree("pi appended below our compaction")
        link.ask("session/reset", session_id=session_id)
        agree("we reset")
        pi_says("user", "a second trunk")
        agree("pi began a second trunk")
    assert path.read_bytes().startswith(before), "nothing of pi's was rewritten"


ANSWERED: dict[str, Any] = {
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": {
        "input": 0,
        "output": 0,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    },
    "stopReason": "stop",
    "timestamp": 1769936401000,
}
