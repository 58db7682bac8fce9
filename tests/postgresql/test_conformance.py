"""The conformance kit against a daemon with its sessions on PostgreSQL: through the wire, and a client."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.interop.test_conformance import (
    ABOUT_FILES,
    BELOW_A_CLIENT,
    CASES,
    CLIENTS,
    skipped,
    with_daemon,
)
from tests.postgresql.cluster import Cluster
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.search]


@pytest.fixture
def stored(cluster: Cluster, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let daemons that are started use a database of their own."""
    cluster.sql(f"CREATE DATABASE {schema}")
    address = f"postgresql:///{schema}?host={cluster.folder}&user=tests"
    monkeypatch.setenv("SESSIOND_STORE", address)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("framing", "other"), [("ndjson", "frames-"), ("content-length", "lines-")]
)
def test_the_daemon_passes_in_both_framings(framing: str, other: str) -> None:
    code, said = with_daemon(SESSIOND, "--store", "database", "--framing", framing)
    assert skipped(said) == ABOUT_FILES | {name for name in CASES if name.startswith(other)}
    assert (code, sorted(said)) == (0, CASES)


@pytest.mark.usefixtures("stored")
def test_a_client_passes() -> None:
    client = shlex.join([sys.executable, str(CLIENTS), "anyio"])
    code, said = with_daemon(SESSIOND, "--store", "database", "--client", client)
    assert skipped(said) == ABOUT_FILES | BELOW_A_CLIENT
    assert (code, sorted(said)) == (0, CASES)
