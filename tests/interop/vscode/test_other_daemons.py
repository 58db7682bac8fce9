"""The extension beside a daemon of another version: one message, however often the extension connects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sessiond import __version__
from tests.kit.patience import PATIENCE_SECONDS
from tests.versions.talk import another_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

WINDOW: Final = Path(__file__).with_name("window.mjs")
PROGRAM: Final = """
const [, library, bundle] = process.argv;
const { open } = await import(library);
const window = open(bundle, "/my/project");
const found = await window.views["sessiond.sessions"].nodes();
console.log(JSON.stringify([found.map(({ info }) => info.message_count), window.said]));
window.close();
"""


@pytest.mark.parametrize("another", [("older", "0.1.0"), ("newer", "0.10.0")], ids=str)
def test_the_extension_tells_a_daemon_of_another_version_once(
    another: tuple[str, str],
    node: Path,
    vscode_extension: Path,
    environment: Mapping[str, str],
    socket_path: Path,
) -> None:
    age, version = another
    words: list[str | Path] = [node, "--input-type=module", "-e", PROGRAM, WINDOW]
    with another_daemon(socket_path, version, [[{"method": "catalog/subscribe"}, {"result": {}}]]):
        done = subprocess.run(
            [*words, vscode_extension / "dist" / "extension.js"],
            env={**environment, "SESSIOND_SOCKET": str(socket_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    sessions, said = json.loads(done.stdout)
    assert len(sessions) == 1
    line = f"sessiond: the running daemon is {age} ({version}) than this program ({__version__})"
    assert said == [f"{line}: `sessiond restart` replaces it"]
