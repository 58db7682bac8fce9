"""Refusals of the daemon as problems in an editor, and their end without a word of the editor."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types

from sessiond_client import connect
from tests.interop.lsp.editor import NATIVE, PI, Editor, copy, editor, whole
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


async def test_a_deleted_session_that_is_restored_loses_its_refusal(server: Daemon) -> None:
    async with editor(server) as client, connect(server.socket_path) as other:
        made = (await other.create(cwd="/p", persist="immediate")).session
        await other.append(made.id, message={"role": "user", "content": "first"})
        uri = client.open(Path(made.path or ""))
        assert await client.problems(uri) == []
        # From here on the editor's text is older than the file.
        await other.append(made.id, message={"role": "user", "content": "second"})
        await other.call("session/delete", session_id=made.id)
        assert [whole(one) for one in await problems_until(client, uri, shown=True)] == [
            ("session_not_found", 0)
        ]
        await other.call("session/restore", session_id=made.id)
        await problems_until(client, uri, shown=False)


async def test_an_empty_file_that_another_program_fills_loses_its_refusal(
    server: Daemon, home: Path
) -> None:
    path = home / "filled.jsonl"
    path.touch()
    async with editor(server) as client:
        uri = client.open(path)
        assert [whole(one) for one in await client.problems(uri)] == [("session_corrupt", 0)]
        copy(PI, home).rename(path)
        await problems_until(client, uri, shown=False)
        # The editor reads the file again, without a save.
        client.edit(uri, ((0, 0), (0, 0), path.read_text("utf-8")))
        await problems_until(client, uri, shown=False)
        assert len(await client.symbols(uri)) > 5


async def test_a_refusal_goes_while_the_text_is_unsaved(server: Daemon, home: Path) -> None:
    path = home / "filled.jsonl"
    path.touch()
    async with editor(server) as client:
        uri = client.open(path)
        assert [whole(one) for one in await client.problems(uri)] == [("session_corrupt", 0)]
        client.edit(uri, ((0, 0), (0, 0), PI.read_text("utf-8") + "unsaved"))
        copy(PI, home).rename(path)
        await problems_until(client, uri, shown=False)


async def test_a_problem_that_another_program_made_and_mended_goes(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        session = await other.open(path=str(path))
        await other.append(session.id, message={"role": "user", "content": "new"})
        await other.close(session.id)
        longer = path.read_bytes()
        assert longer.startswith(good)
        replace(path, longer + b"this is no JSON\n")
        shown = await problems_until(client, uri, shown=True)
        assert [whole(one) for one in shown] == [("changed_on_disk", 0)]
        replace(path, longer)
        await problems_until(client, uri, shown=False)


def replace(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that no reader sees a part of the content."""
    written = path.with_suffix(".new")
    written.write_bytes(content)
    written.replace(path)


async def problems_until(client: Editor, uri: str, *, shown: bool) -> list[types.Diagnostic]:
    """Return the next diagnostics that are not empty; with `shown=False`, the next empty ones."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await client.problems(uri)
            if bool(found) == shown:
                return found
