"""The TypeScript client beside a daemon of an earlier version: one warning, and answers that are read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sessiond import __version__
from tests.kit.patience import PATIENCE_SECONDS
from tests.versions.talk import another_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

PROGRAM = """
const [, library, socket] = process.argv;
const { connect, difference } = await import(library);
const client = await connect({ socket });
const { sessions } = await client.list();
console.log(sessions.length, sessions[0].agent_program, difference({ version: "0.10.0" }));
client.disconnect();
"""


def test_an_older_daemon_is_told_in_one_line(
    node20: Path, library: Path, socket_path: Path
) -> None:
    with another_daemon(socket_path, "0.1.0"):
        done = subprocess.run(
            [node20, "--input-type=module", "-e", PROGRAM, library, socket_path],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    assert done.stdout.startswith("1 undefined the running daemon is newer (0.10.0)")
    told = f"the running daemon is older (0.1.0) than this program ({__version__})"
    assert done.stderr.count(told) == 1
