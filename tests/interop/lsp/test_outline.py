"""The outline of a session file in an editor."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from sessiond_client import connect
from tests.interop.lsp.editor import NATIVE, PI, SAMPLES, copy, editor, names, whole
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


async def test_the_outline_of_a_native_session(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        assert await client.problems(uri) == []
        assert list(names(await client.symbols(uri))) == [
            "0 019a6f00-0000-7000-8000-000000000001 (session)",
            "22 A second trunk. (system)",
            "1 branch at line 2: high (branch)",
            "  1 high (thinking_level_change)",
            "  2 claude-opus-4-5 (model_change)",
            "  3 Fix the flaky test \u2013 it\u2019s in test_cart.py please (user)",
            "    4 Reading. (assistant)",
            "    5 def test_cart(): ... (tool)",
            "    6 It depends on time. (assistant)",
            "    8 todo-ext (custom)",
            "    9 2 todos open (custom_message)",
            "  11 On a head of its own (user)",
            "12 branch at line 13: Goal: fix the flaky test. (branch)",
            "  12 Goal: fix the flaky test. (compaction)",
            "  13 also check orders (user)",
            "15 branch at line 16: Froze the clock. (branch)",
            "  15 Froze the clock. (branch_summary)",
            "  18 [compaction] (compaction)",
            "    19 [reaction] (reaction)",
        ]


async def test_the_outline_of_a_pi_session_for_an_editor_without_trees(
    server: Daemon, home: Path
) -> None:
    async with editor(server, trees=False) as client:
        uri = client.open(copy(PI, home))
        assert await client.problems(uri) == []
        symbols = await client.symbols(uri)
        assert all(isinstance(symbol, types.SymbolInformation) for symbol in symbols)
        assert [
            (symbol.location.range.start.line, symbol.name, symbol.container_name)
            for symbol in symbols[:6]
        ] == [
            (0, "Flaky cart test", None),
            (1, "claude-opus-4-5", None),
            (2, "high", None),
            (3, "Fix the flaky test", None),
            (4, "Reading.", "Fix the flaky test"),
            (5, "def test_cart(): ...", "Fix the flaky test"),
        ]


async def test_an_old_file_is_read_and_its_import_advised(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(SAMPLES / "pi" / "pi-v1-linear.jsonl", home))
        (one,) = await client.problems(uri)
        assert whole(one) == ("read_only", 0)
        assert "older version" in one.message
        assert "sessiond import" in one.message


@pytest.mark.parametrize("name", ["before-compaction.jsonl", "large-session.jsonl"])
async def test_recorded_sessions(server: Daemon, shared: Path, name: str) -> None:
    async with editor(server) as client, connect(server.socket_path) as other:
        imported = await other.import_(path=str(shared / "fixtures" / name))
        assert imported.session.path is not None
        path = Path(imported.session.path)
        uri = client.open(path)
        assert await client.problems(uri) == []
        symbols = list(names(await client.symbols(uri)))
        assert len(symbols) >= path.read_bytes().count(b"\n")
        assert "\nactive path: " in str(await client.hover(uri, len(symbols) // 2))
