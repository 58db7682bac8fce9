"""The conformance kit on the plugin's client."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, KIT, skipped, with_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

HERE: Final = Path(__file__).parent
# They compare the order of members or the spelling of numbers, which no table of Lua keeps.
EXACT: Final = {
    *("context-views", "file-of-operator", "import-of-another-program"),
    *("key-order-and-unknown-members", "queue", "repair", "state-files", "state-store"),
    *("subscribe-filters", "turns"),
}
RESPELLED: Final = {
    *("append-entry-types", "big-integers-and-decimals", "compaction", "import-and-export"),
    *("payload-after-restart", "pipelined-signals-keep-their-order", "retry-same-ids"),
    *("retry-same-key", "signals", "subscribe-from-now", "update"),
}


@pytest.mark.conformance
@pytest.mark.parametrize("payloads", ["text", pytest.param("tables", marks=pytest.mark.search)])
def test_the_client_passes_the_kit(
    payloads: str, neovim: str, sessiond_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEOVIM", neovim)
    monkeypatch.setenv("CONFORMANCE_PAYLOADS", payloads)
    left_out, unsupported = (EXACT, RESPELLED) if payloads == "tables" else (set(), set())
    asked = sorted(set(CASES) - left_out)
    command = shlex.join(["sh", str(HERE / "conformance.sh")])
    code, outcomes = with_daemon(sessiond_program, "--client", command, *asked)
    assert skipped(outcomes) == BELOW_A_CLIENT | unsupported
    assert (code, sorted(outcomes)) == (0, asked)


@pytest.mark.conformance
def test_the_cases_left_out_are_about_bytes() -> None:
    for case in EXACT:
        assert re.search(r"\$exact|\d\.\d+", (KIT / "cases" / f"{case}.json").read_text("utf-8")), (
            case
        )
