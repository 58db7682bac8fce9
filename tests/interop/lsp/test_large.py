"""A file of 50 MB in an editor: no step of the server's event loop grows with the file.

Row 20 of the benchmark has the times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.lsp_link import LspLink, language_server
from tests.kit.steps import FORGET, longest
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).resolve().parents[3]
SIZE = 50_000_000
HEADER = (
    '{"type":"session_header","version":1,"id":"large-session",'
    '"timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
)
WORDS = 'Words of an answer, "quoted", with an é, a \\u2028 and a \U0001f600. '


def lines(size_wanted: int) -> Iterator[str]:
    number, size = 1, 0
    while size < size_wanted:
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


def test_no_step_grows_with_the_file(server: Daemon, home: Path, tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    small, large = home / "small.jsonl", home / "large.jsonl"
    text = HEADER + "".join(lines(SIZE))
    small.write_text(HEADER.replace("large", "small") + "".join(lines(SIZE // 100)), "utf-8")
    large.write_text(text, "utf-8")
    command = [sys.executable, "-m", "tests.kit.steps", str(steps), "lines", "lsp"]
    environment = {**server.environment, "PYTHONPATH": str(REPOSITORY)}
    server_at = ("--socket", str(server.socket_path))
    with language_server([*command, *server_at], environment) as link:
        # What a server does once, for its first messages of a kind, is done behind the small file.
        work_in(link, small)
        link.process.send_signal(FORGET)
        work_in(link, large)
    found = longest(steps)
    assert found.steps > 50
    # A step that looks at each line, or at each entry, has at least so many.
    assert found.lines < text.count("\n") // 3, found


def work_in(link: LspLink, path: Path) -> None:
    """Open a file, ask, edit, replace the text and save it."""
    text = path.read_text("utf-8")
    count = text.count("\n")
    document = link.open(path)
    assert len(link.ask("textDocument/documentSymbol", document)) > 100
    assert link.wait_for_problems() == []
    for line in (1, count // 2, count - 1):
        link.change(path, {"range": span(line), "text": " "})
        assert f"id: e{line}\n" in hover(link, document, line)
    link.change(path, {"text": text})
    assert "id: e7\n" in hover(link, document, 7)
    link.tell("textDocument/didSave", document)
    assert link.wait_for_problems() == []
    assert link.ask("textDocument/documentSymbol", document)
    link.tell("textDocument/didClose", document)
    assert link.wait_for_problems() == []


def span(line: int) -> Any:
    return {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}


def hover(link: LspLink, document: Any, line: int) -> str:
    params = {**document, "position": {"line": line, "character": 2}}
    return str(link.ask("textDocument/hover", params)["contents"]["value"])
