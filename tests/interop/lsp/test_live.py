"""Hints, tokens and search, refreshes after changes, and progress of long work."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from sessiond.limits import OUTLINE_NODES_MAX, TOKENS_CHARS_MAX
from sessiond_client import connect
from tests.interop.lsp.editor import (
    CLAUDE,
    LINEAR,
    NATIVE,
    PI,
    REFRESHES,
    SHARUR,
    Editor,
    copy,
    editor,
)
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

USED = "2,775 in, 141 out"


@pytest.mark.parametrize(
    ("sample", "shown"),
    [
        (NATIVE, [(4, USED), (5, "about 5 tokens"), (12, "50,000 tokens before, 900 after")]),
        (PI, [(4, USED), (5, "about 5 tokens"), (11, "50,000 tokens before")]),
        (LINEAR, [(1, "about 1 token"), (2, USED), (4, "9,000 tokens before")]),
        (SHARUR, [(4, "852 tokens"), (9, "about 2 tokens  #before-docs")]),
        (CLAUDE, [(0, "about 5 tokens"), (4, "20 in, 40 out")]),
    ],
    ids=lambda sample: sample.stem if isinstance(sample, Path) else "",
)
async def test_hints_show_tokens_and_labels(
    server: Daemon, home: Path, sample: Path, shown: list[tuple[int, str]]
) -> None:
    async with editor(server) as client:
        uri = client.open(copy(sample, home))
        found = await client.hints(uri)
        assert [one for one in found if one in shown] == shown
        assert await client.hints(uri, 4, 4) == [one for one in found if one[0] == 4]


async def test_semantic_tokens_of_a_range_of_a_text_and_of_a_change(
    server: Daemon, home: Path
) -> None:
    async with editor(server) as client:
        for sample in (NATIVE, LINEAR, SHARUR):
            uri = client.open(copy(sample, home))
            named = types.TextDocumentIdentifier(uri)
            whole = await client.ask(
                types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensParams(named)
            )
            lines = types.Range(types.Position(2, 0), types.Position(3, 0))
            part = await client.ask(
                types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE,
                types.SemanticTokensRangeParams(named, lines),
            )
            assert sum(part.data[::5]) <= 3
            assert 0 < len(part.data) < len(whole.data)
            client.edit(uri, ((1, 0), (1, 0), '{"type":"label","id":"new"}\n'))
            change = await client.ask(
                types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA,
                types.SemanticTokensDeltaParams(named, whole.result_id),
            )
            (edit,) = change.edits
            numbers = list(whole.data)
            numbers[edit.start : edit.start + edit.delete_count] = edit.data
            again = await client.ask(
                types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensParams(named)
            )
            assert numbers == list(again.data)
            assert len(edit.data) <= 15
        # A long text is answered by ranges only.
        row = json.dumps({"type": "message", "id": "e1", "text": "x" * 1000})
        long = "\n".join([row] * (TOKENS_CHARS_MAX // len(row) + 2))
        uri = client.open(home / "long.jsonl", long)
        named = types.TextDocumentIdentifier(uri)
        params = types.SemanticTokensParams(named)
        assert await client.ask(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, params) is None
        lines = types.Range(types.Position(500, 0), types.Position(501, 0))
        part = await client.ask(
            types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, types.SemanticTokensRangeParams(named, lines)
        )
        assert list(part.data[:10]) == [500, 10, 7, 0, 0, 0, 17, 2, 2, 1]


async def test_a_search_finds_entries_of_all_sessions(server: Daemon, home: Path) -> None:
    folders = {kind: home / kind for kind in ("pi", "sharur", "claude-code")}
    agents = folders["claude-code"] / "-p" / "5e55a1d0-0000-4000-8000-000000000001.jsonl"
    for folder in (folders["pi"], folders["sharur"], agents.parent):
        folder.mkdir(parents=True)
    for sample in (PI, LINEAR):
        shutil.copy(sample, folders["pi"])
    shutil.copy(SHARUR, folders["sharur"])
    shutil.copy(CLAUDE, agents)
    async with editor(server) as client, connect(server.socket_path) as other:
        for kind, folder in folders.items():
            await other.call("catalog/roots", action="add", path=str(folder), kind=kind)
        made = (await other.create(cwd="/p", title="Own one", persist="immediate")).session
        await other.append(made.id, message={"role": "user", "content": "a needle in the hay"})
        path = Path(made.path or "")
        assert await client.find("needle") == [("a needle in the hay", path.as_uri(), 1)]
        # Lines with ids and without, in a file with a header and in one without.
        for query, file, line in (
            ("flaky", folders["pi"] / PI.name, 3),
            ("four", folders["pi"] / LINEAR.name, 5),
            ("retry bug", folders["sharur"] / SHARUR.name, 3),
            ("smaller", agents, 7),
        ):
            found = [(uri, at) for _, uri, at in await client.find(query)]
            assert (file.as_uri(), line) in found
        assert (await client.find(""))[0][0] == "Own one"
        assert await client.find("nothing-has-this-word") == []

        # The editor's text places the hit, unsaved lines included.
        uri = client.open(path)
        client.edit(uri, ((1, 0), (1, 0), "unsaved\n"))
        assert await client.find("needle") == [("a needle in the hay", uri, 2)]
        await other.append(made.id, message={"role": "user", "content": "second needle"})
        # The text does not have this entry yet.
        assert [line for _, _, line in await client.find("needle")] == [2]


async def test_the_editor_is_asked_to_refresh_when_the_session_changed(
    server: Daemon, home: Path
) -> None:
    path = copy(PI, home)
    async with (
        editor(server, "--no-start", refreshes=True) as client,
        connect(server.socket_path) as other,
    ):
        uri = client.open(path)
        assert await client.problems(uri) == []
        session = await other.open(path=str(path))
        await other.append(session.id, message={"role": "user", "content": "new", "timestamp": 1})
        assert {await refreshed(client) for _ in REFRESHES} == {*REFRESHES}
        # Nothing changes: reads, a signal, presence, and a file whose time alone is another.
        await other.entries(session.id)
        await other.signal(session.id, kind="typing", data={})
        await other.presence(session.id, state="thinking")
        os.utime(path)
        # The daemon looks at the file before it appends to the file, and tells in order.
        await other.label(session.id, "10000003", "seen")
        assert {await refreshed(client) for _ in REFRESHES} == {*REFRESHES}
        await until_labelled(client, uri, "seen")
        assert client.refreshed.empty()
        # Lenses that no daemon answered are asked for again once one is back.
        server.end(signal.SIGKILL)
        told = await client.message()
        assert told.endswith(
            "the daemon ended; session files are shown as plain text until a daemon is back"
        )
        assert await client.lenses(uri) == {}
        server.start()
        assert {await refreshed(client) for _ in REFRESHES} == {*REFRESHES}
        assert await client.lenses(uri) != {}


async def until_labelled(client: Editor, uri: str, label: str) -> None:
    """Wait until an entry shows a label."""
    while not any(f"label: {label}" in titles for titles in (await client.lenses(uri)).values()):
        # Its event is on the way.
        continue


async def refreshed(client: Editor) -> str:
    return await asyncio.wait_for(client.refreshed.get(), PATIENCE_SECONDS)


async def test_an_editor_that_does_not_refresh_is_not_asked_to(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        session = await other.open(path=str(path))
        await other.label(session.id, "n3", "seen")
        await until_labelled(client, uri, "seen")
        # What the first label could have led to comes before what the second one does.
        await other.label(session.id, "n3", "seen again")
        await until_labelled(client, uri, "seen again")
        assert client.refreshed.empty()


def big(folder: Path) -> Path:
    """Return a session that takes more than a second to read."""
    path = folder / "big.jsonl"
    time = '"timestamp":"2026-01-15T10:30:00Z"'
    with path.open("w", encoding="utf-8") as file:
        file.write(
            f'{{"type":"session_header","version":1,"id":"big-session",{time},"cwd":"/p"}}\n'
        )
        for number in range(1, OUTLINE_NODES_MAX + 1):
            parent = f'"e{number - 1}"' if number > 1 else "null"
            file.write(
                f'{{"type":"message","id":"e{number}","parent_id":{parent},{time},'
                f'"message":{{"role":"user","content":"question {number}"}}}}\n'
            )
    return path


async def test_a_big_session_shows_progress_and_can_be_cancelled(
    server: Daemon, home: Path
) -> None:
    path = big(home)
    text = "".join(path.read_text("utf-8").splitlines(keepends=True)[:50])
    async with editor(server) as client:
        uri = client.open(path, text)
        asked = asyncio.ensure_future(client.folds(uri))
        token, value = await told(client, "begin")
        assert client.tokens == [token]
        assert (value["title"], value["cancellable"]) == ("sessiond: reading big.jsonl", True)
        # The daemon stands still, so the work is not done before it is cancelled.
        os.kill(server.pid, signal.SIGSTOP)
        client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
        with pytest.raises(JsonRpcException) as cancelled:
            await asked
        assert cancelled.value.code == types.LSPErrorCodes.RequestCancelled
        assert (await told(client, "end"))[0] == token
        os.kill(server.pid, signal.SIGCONT)
        lenses = asyncio.ensure_future(client.lenses(uri))
        _, value = await told(client, "report")
        assert value["message"].endswith("of 100,000 entries")
        assert len(await lenses) == 49
        await told(client, "end")


async def told(client: Editor, kind: str) -> tuple[str | int, dict[str, Any]]:
    """Return token and value of the next progress of a kind."""
    while True:
        found = await asyncio.wait_for(client.progresses.get(), PATIENCE_SECONDS)
        value: dict[str, Any] = found.value or {}
        if value["kind"] == kind:
            return found.token, value


async def test_a_search_uses_the_token_of_its_request(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        assert await client.problems(uri) == []
        os.kill(server.pid, signal.SIGSTOP)
        asked = asyncio.ensure_future(client.find("flaky", token="mine"))
        assert (await told(client, "begin"))[0] == "mine"
        assert client.tokens == []
        client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams("mine"))
        with pytest.raises(JsonRpcException) as cancelled:
            await asked
        assert cancelled.value.code == types.LSPErrorCodes.RequestCancelled
        os.kill(server.pid, signal.SIGCONT)
        assert isinstance(await client.find("flaky"), list)
