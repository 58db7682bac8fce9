"""Microsoft's library for language servers, which VS Code speaks with, and `sessiond lsp`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop.lsp.editor import NATIVE, copy
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent.with_name("node") / "lsp_client.mjs"


def test_vscode_opens_asks_and_is_told_of_a_broken_line(
    server: Daemon, home: Path, node: Path, node_modules: Path
) -> None:
    path = copy(NATIVE, home)
    command = (SESSIOND, "lsp", "--socket", str(server.socket_path))
    done = subprocess.run(
        [str(node), str(PROGRAM), str(node_modules), str(path), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=dict(server.environment),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), path)


def check(saw: dict[str, Any], path: Path) -> None:
    lines = path.read_text("utf-8").split("\n")
    assert saw["troubles"] == []
    assert saw["exitCode"] == 0
    assert {"hoverProvider", "definitionProvider", "documentSymbolProvider"} <= set(
        saw["capabilities"]
    )
    assert saw["opened"] == {"uri": path.as_uri(), "diagnostics": []}
    assert [symbol["name"] for symbol in saw["symbols"][:2]] == [
        "019a6f00-0000-7000-8000-000000000001",
        "A second trunk.",
    ]
    assert saw["symbols"][2]["children"][2]["children"][0]["detail"] == "assistant"

    assert "\nid: n4\nparent: n3\n" in saw["hover"]["contents"]["value"]
    assert "\nid: n3\n" in saw["parent"]["contents"]["value"]
    start = lines[3].index('"id":"n3"') + 6
    at = {"start": {"line": 3, "character": start}, "end": {"line": 3, "character": start + 2}}
    assert saw["definition"] == {"uri": path.as_uri(), "range": at}

    (broken,) = saw["broken"]["diagnostics"]
    assert (broken["code"], broken["range"]["start"]["line"]) == ("changed_on_disk", 0)
    placed = [(one["code"], one["range"]["start"]["line"]) for one in saw["placed"]["diagnostics"]]
    assert placed == [("read_only", 0), ("bad_line", len(lines) - 2)]
    assert saw["closed"]["diagnostics"] == []
