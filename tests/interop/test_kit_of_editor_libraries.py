"""The conformance kit on the libraries with which editors speak: pygls, vscode-languageserver-protocol."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, skipped, with_daemon
from tests.interop.typescript_client.test_conformance import RESPELLED, RESPELLED_IN_A_FILE

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
# They compare bytes that the client has spelled, or that it reads as values.
SPELLED_BY_PYTHON = {"context-views", "repair"}


@pytest.mark.conformance
def test_pygls_passes(sessiond_program: str) -> None:
    command = shlex.join([sys.executable, str(HERE / "conformance_pygls.py"), sessiond_program])
    asked = sorted(set(CASES) - SPELLED_BY_PYTHON)
    code, said = with_daemon(sessiond_program, "--client", command, *asked)
    assert skipped(said) == BELOW_A_CLIENT | RESPELLED
    assert (code, sorted(said)) == (0, asked)


@pytest.mark.conformance
def test_vscode_languageserver_protocol_passes(
    node: Path, node_modules: Path, sessiond_program: str
) -> None:
    command = shlex.join([str(node), str(HERE / "node" / "conformance.mjs"), str(node_modules)])
    asked = sorted(set(CASES) - RESPELLED_IN_A_FILE)
    code, said = with_daemon(sessiond_program, "--client", command, *asked)
    assert skipped(said) == BELOW_A_CLIENT | RESPELLED
    assert (code, sorted(said)) == (0, asked)
