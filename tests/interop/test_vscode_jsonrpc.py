"""Microsoft's JSON-RPC library, which editors speak with, over the Unix socket."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

FOLDER = Path(__file__).with_name("node")


def test_vscode_jsonrpc_creates_appends_subscribes_and_reads_back(
    server: Daemon, node: Path, node_modules: Path
) -> None:
    server.connect().close()
    done = subprocess.run(
        [str(node), str(FOLDER / "client.mjs"), str(node_modules), str(server.socket_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), server)


def check(saw: dict[str, Any], server: Daemon) -> None:
    assert saw["problems"] == []
    assert isinstance(saw["initialized"]["capabilities"], dict)
    assert saw["created"]["session"]["title"] == "Grüße"
    said = [{"role": "user", "content": "before"}, *saw["messages"]]
    stored = [*saw["before"]["entries"], *[one["entries"][0] for one in saw["appended"]]]
    ids = [entry["id"] for entry in stored]

    assert [entry["seq"] for entry in stored] == [1, 2, 3, 4]
    assert saw["subscribed"]["seq"] == 1
    assert saw["caughtUp"]["seq"] == 1
    assert [event["seq"] for event in saw["events"]] == [1, 2, 3, 4]
    assert [event["entry"]["id"] for event in saw["events"]] == ids
    assert [event["entry"]["message"] for event in saw["events"]] == said
    assert saw["context"]["messages"] == said
    assert saw["context"]["sources"] == ids
    assert [row["entry"]["message"] for row in saw["entries"]["entries"]] == said

    assert (saw["missing"]["code"], saw["missing"]["data"]["kind"]) == (-32030, "entry_not_found")
    assert saw["unknown"]["code"] == -32601
    assert (saw["wrong"]["code"], saw["wrong"]["data"]["path"]) == (-32033, "message.role")
    assert saw["ping"] is not None
    assert saw["down"] is None

    (path,) = server.files(saw["created"]["session"]["id"])
    lines = path.read_text("utf-8").split("\n")[1:-1]
    assert [json.loads(line)["message"] for line in lines] == said


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_the_lists_of_packages_name_no_host(name: str) -> None:
    text = (FOLDER / name).read_text("utf-8")
    assert not re.search(r"https?:|resolved|registry", text)
