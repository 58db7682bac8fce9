"""Hovers of entries, and ids that lead to their entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.interop.lsp.editor import NATIVE, copy, editor
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


async def test_a_hover_tells_of_the_entry_in_the_line(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        assert str(await client.hover(uri, 4)).split("\n") == [
            "message, assistant (claude-opus-4-5)",
            "id: n4",
            "parent: n3",
            "written: 2026-01-15T10:30:04.000Z",
            "line: 5",
            "seq: 4",
            "depth: 3",
            "children: 1",
            "active path: no",
            "tokens: input 2,775, output 141",
            "",
            "Reading.",
        ]
        head = str(await client.hover(uri, 22))
        assert "heads here: main\nactive path: yes" in head
        assert str(await client.hover(uri, 0)).startswith("session\nid: 019a6f00")
        # A record: in no tree, but an entry.
        assert str(await client.hover(uri, 7)).startswith("label\nid: n7\n")
        assert await client.hover(uri, 23) is None
        assert await client.hover(uri, 999) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_ids_lead_to_their_entries_behind_text_beyond_the_bmp(
    server: Daemon, home: Path, encoding: str
) -> None:
    path = home / "wide.jsonl"
    path.write_text(
        '{"type":"session_header","version":1,"id":"wide-session","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}\n'
        '{"type":"message","message":{"role":"user","content":"\U0001f600 \u2028 é"},"id":"w1","parent_id":null,"timestamp":"2026-01-15T10:30:00Z"}\n'
        '{"type":"message","message":{"role":"assistant","content":"\U0001f600\U0001f600"},"id":"w2","parent_id":"w1","timestamp":"2026-01-15T10:30:00Z"}\n',
        "utf-8",
    )
    text = path.read_text("utf-8").split("\n")
    size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
    codec, width = size[encoding]

    def span(line: int, name: str) -> types.Range:
        start = text[line].index(f'"{name}":"') + len(name) + 4
        columns = [len(text[line][:at].encode(codec)) // width for at in (start, start + 2)]
        return types.Range(*(types.Position(line, column) for column in columns))

    async with editor(server, encodings=(encoding,)) as client:
        assert client.hello is not None
        assert client.hello.capabilities.position_encoding == encoding
        uri = client.open(path)
        parent = span(2, "parent_id")
        found = await client.hovered(uri, 2, parent.start.character + 1)
        assert found is not None
        assert found.range == parent
        assert isinstance(found.contents, types.MarkupContent)
        assert found.contents.value.startswith("message, user\nid: w1\n")
        there = await client.definition(uri, 2, parent.start.character + 1)
        assert there == types.Location(uri, span(1, "id"))
        assert await client.definition(uri, 2, 0) is None
