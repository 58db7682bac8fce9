"""The official suite of the Model Context Protocol, from npm, for what it asks of every server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sessiond_client import connect_blocking
from tests.kit.node import installed
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

LOCK: Final = Path(__file__).parents[1] / "mcp_conformance"
# The other scenarios name tools, resources and prompts of a server that was written for the suite.
SCENARIOS: Final = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "completion-complete",
    "logging-set-level",
)


@pytest.fixture(scope="module")
def suite(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the folder with the packages of the suite."""
    return installed(LOCK, node, machine_environment) / "node_modules"


@contextmanager
def bridged(node: Path, suite: Path, server: Daemon) -> Iterator[str]:
    """Yield the address of a bridge from HTTP to the server on standard input and output."""
    words = [SESSIOND, "mcp", "--no-start", "--socket", str(server.socket_path)]
    with subprocess.Popen(
        [str(node), str(LOCK / "bridge.mjs"), *words],
        env={**server.environment, "NODE_PATH": str(suite)},
        stdout=subprocess.PIPE,
        text=True,
    ) as bridge:
        assert bridge.stdout is not None
        try:
            yield bridge.stdout.readline().strip()
        finally:
            bridge.kill()


def test_the_official_suite_passes(node: Path, suite: Path, server: Daemon, tmp_path: Path) -> None:
    server.connect().close()
    with connect_blocking(server.socket_path) as client:
        client.create(cwd="/p", title="Fix the clock", persist="immediate")
    program = suite / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    said: dict[str, str] = {}
    with bridged(node, suite, server) as address:
        for scenario in SCENARIOS:
            words = ["server", "--url", address, "--scenario", scenario]
            done = subprocess.run(
                [str(node), str(program), *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            if done.returncode or "1/1" not in done.stdout:
                said[scenario] = done.stdout + done.stderr
    assert said == {}
