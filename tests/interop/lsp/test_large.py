"""A file of 50 MB in an editor: no step of the server's event loop is long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.lsp_link import LspLink, language_server
from tests.kit.steps import longest
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).resolve().parents[3]
SIZE = 50_000_000
STEP_MS_MAX = 50
HEADER = (
    '{"type":"session_header","version":1,"id":"large-session",'
    '"timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
)
WORDS = 'Words of an answer, "quoted", with an é, a \\u2028 and a \U0001f600. '


def lines() -> Iterator[str]:
    number, size = 1, 0
    while size < SIZE:
        role = "user" if number % 4 == 1 else "assistant"
        parent = f'"e{number - 1}"' if number > 1 else "null"
        said = WORDS.replace('"', '\\"') * (1 + number % 25)
        line = (
            f'{{"type":"message","id":"e{number}","parent_id":{parent},'
            f'"timestamp":"2026-01-15T10:30:04.000Z",'
            f'"message":{{"role":"{role}","content":"{said}"}}}}\n'
        )
        yield line
        number, size = number + 1, size + len(line)


def test_no_step_is_long_in_a_file_of_50_mb(server: Daemon, home: Path, tmp_path: Path) -> None:
    path, steps = home / "large.jsonl", tmp_path / "steps"
    text = "".join([HEADER, *lines()])
    path.write_text(text, "utf-8")
    count = text.count("\n")
    command = [sys.executable, "-m", "tests.kit.steps", str(steps), "lsp"]
    environment = {**server.environment, "PYTHONPATH": str(REPOSITORY)}
    server_at = ("--socket", str(server.socket_path))
    with language_server([*command, *server_at], environment) as link:
        document = link.open(path)
        assert len(link.ask("textDocument/documentSymbol", document)) > 1000
        assert link.wait_for_problems() == []
        for line in (1, count // 2, count - 1):
            link.change(path, {"range": span(line), "text": " "})
            assert f"id: e{line}\n" in hover(link, document, line)
        link.change(path, {"text": text})
        assert "id: e7\n" in hover(link, document, 7)
        link.tell("textDocument/didSave", document)
        assert link.wait_for_problems() == []
        assert link.ask("textDocument/documentSymbol", document)
    found = longest(steps)
    assert found.steps > 50
    # Time on the loop's thread: what other processes of a busy machine take does not count.
    assert found.cpu_ms < STEP_MS_MAX, found


def span(line: int) -> Any:
    return {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}


def hover(link: LspLink, document: Any, line: int) -> str:
    params = {**document, "position": {"line": line, "character": 2}}
    return str(link.ask("textDocument/hover", params)["contents"]["value"])
