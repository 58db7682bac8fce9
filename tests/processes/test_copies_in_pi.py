"""Copies of pi's sessions, read by pi's own session manager: it sees what our clients see."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.bench.harness.processes import REPOSITORY
from tests.kit.agent_roots import claude_root, codex_root, gemini_root
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.pi import node_and_pi
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.search]

SAMPLE = REPOSITORY / "tests" / "samples" / "pi" / "pi.jsonl"
OTHER = "session-b"
COPIES: list[tuple[str, dict[str, Any]]] = [
    *(
        ("session/fork", {"entries": entries, "ids": ids})
        for entries in ("path", "all", "context")
        for ids in ("keep", "renew")
    ),
    ("session/fork", {"at": "1000000f"}),
    ("session/fork", {"at": "1000000f", "entries": "context"}),
    ("session/fork", {"at": "1000000f", "entries": "context", "keep_messages": 3}),
    ("session/fork", {"entries": "none", "state": True}),
    ("session/fork", {"title": "A fork", "state": True}),
    ("session/rebase", {"indices": [2, 0, 1]}),
    ("session/rebase", {"entry_ids": ["1000000a", "1000000b", "1000000d"]}),
    ("session/rebase", {"indices": [0, 1], "squash": {"summary": "S"}}),
    ("session/merge", {"other_session_id": OTHER, "text": "both", "into": "new"}),
]
MOVES: list[tuple[str, dict[str, Any]]] = [
    ("session/navigate", {"entry_id": "10000004"}),
    ("session/navigate", {"entry_id": "10000005", "summary": "It was tried.", "label": "x"}),
    ("session/rewind", {"to": "10000003"}),
    ("session/merge", {"other_session_id": OTHER, "text": "both"}),
    ("session/branch", {"entry_id": "1000000f", "summary": "Left."}),
]


def context(link: Link, session_id: str) -> Any:
    """Return a client's context in pi's words."""
    built = link.ask("build_context", session_id=session_id)
    model = built["model"]
    return {
        "messages": built["messages"],
        "thinkingLevel": built["thinking_level"],
        "model": model and {"provider": model.get("provider", ""), "modelId": model["model_id"]},
    }


def test_pi_sees_what_our_clients_see(
    daemon: Daemon, home: Path, absent: Callable[[str], NoReturn]
) -> None:
    contexts: list[Any] = []
    paths: list[str] = []
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=OTHER)
        for method, params in (*COPIES, *MOVES):
            own = link.ask("session/import", path=str(SAMPLE))["session"]
            answer = link.ask(method, session_id=own["id"], **params)
            session = answer.get("session", own)
            contexts.append(context(link, session["id"]))
            paths.append(session["path"])
    read = read_by_pi(absent, home, paths)
    for (method, params), ours, theirs in zip((*COPIES, *MOVES), contexts, read, strict=True):
        assert theirs == ours, (method, params)


def test_pi_goes_on_with_a_fork_of_another_agents_session(
    daemon: Daemon, home: Path, tmp_path: Path, absent: Callable[[str], NoReturn]
) -> None:
    contexts: list[Any] = []
    paths: list[str] = []
    with daemon.connect() as link:
        for make in (claude_root, codex_root, gemini_root):
            root = make(tmp_path.resolve())
            link.ask("catalog/roots", action="add", path=str(root))
        for shown in link.ask("session/list", subagents=True)["sessions"]:
            for entries in ("path", "all", "context"):
                params = {"session_id": shown["id"], "entries": entries, "dialect": "pi"}
                session = link.ask("session/fork", **params)["session"]
                contexts.append(context(link, session["id"]))
                paths.append(session["path"])
    assert len(contexts) == 3 * 10
    assert all(found["messages"] for found in contexts)
    assert read_by_pi(absent, home, paths) == contexts


def test_pi_lists_the_copies_of_a_session_in_its_folder(
    daemon: Daemon, home: Path, absent: Callable[[str], NoReturn]
) -> None:
    root = (home / "agent" / "sessions").resolve()
    source = root / "--home-ana-shop--" / SAMPLE.name
    source.parent.mkdir(parents=True)
    source.write_bytes(SAMPLE.read_bytes())
    with daemon.connect() as link:
        link.ask("catalog/roots", action="add", path=str(root), kind="pi")
        own = link.ask("session/open", path=str(source))["session"]["id"]
        asked: list[tuple[str, dict[str, Any]]] = [
            ("session/fork", {}),
            ("session/fork", {"cwd": "/p/other"}),
            ("session/rebase", {"indices": [2, 0, 1]}),
        ]
        made = [link.ask(method, session_id=own, **more)["session"] for method, more in asked]
        contexts = [context(link, one["id"]) for one in made]
    here, there, rebased = (one["path"] for one in made)
    shop, other = read_by_pi(absent, home, ["cwd:/home/ana/shop", "cwd:/p/other"])
    assert (sorted(shop), other) == (sorted([str(source), here, rebased]), [there])
    assert read_by_pi(absent, home, [here, there, rebased]) == contexts


def read_by_pi(absent: Callable[[str], NoReturn], home: Path, paths: list[str]) -> Any:
    """Return the contexts that pi sees in these files, in which nothing is amiss that pi would mend.

    In place of a file, "cwd:" and a project stand for the files that pi lists of the project.
    """
    node, manager = node_and_pi(absent)
    driver = Path(__file__).with_name("pi_reader.mjs")
    environment = {**os.environ, "HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")}
    files = [Path(path) for path in paths if not path.startswith("cwd:")]
    before = [path.read_bytes() for path in files]
    command = [*map(str, (node, driver, manager)), *paths]
    read = subprocess.run(
        command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert [path.read_bytes() for path in files] == before
    return json.loads(read.stdout)
