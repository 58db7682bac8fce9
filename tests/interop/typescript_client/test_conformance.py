"""The TypeScript client passes the conformance kit, in the oldest Node that it supports and in the newest."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, skipped, with_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

CLIENT = Path(__file__).parents[1] / "conformance_typescript.mjs"
# They compare the spelling of numbers, as in `1.50`, which no value of JavaScript keeps.
RESPELLED = {
    *("append-entry-types", "big-integers-and-decimals", "compaction", "import-and-export"),
    *("payload-after-restart", "pipelined-signals-keep-their-order", "retry-same-ids"),
    *("retry-same-key", "signals", "state-store", "subscribe-from-now", "update"),
}
RESPELLED_IN_A_FILE = {"repair"}


@pytest.mark.conformance
@pytest.mark.parametrize("kind", ["streams", pytest.param("follows", marks=pytest.mark.search)])
def test_the_client_passes(kind: str, any_node: Path, library: Path, sessiond_program: str) -> None:
    command = shlex.join([str(any_node), str(CLIENT), str(library), kind])
    asked = sorted(set(CASES) - RESPELLED_IN_A_FILE)
    code, said = with_daemon(sessiond_program, "--client", command, *asked)
    assert skipped(said) == BELOW_A_CLIENT | RESPELLED
    assert (code, sorted(said)) == (0, asked)
