"""Code lenses, and the commands behind them."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from lsprotocol import types

from sessiond_client import connect
from sessiond_client.generated.requests import Summarize
from tests.interop.lsp.editor import CLAUDE, LINEAR, NATIVE, PI, SHARUR, copy, editor
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

READS = ["context from here"]
WRITES = ["branch here", "label", "context from here"]


async def test_lenses_offer_what_the_file_allows(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        lenses = await client.lenses(client.open(copy(NATIVE, home)))
        assert lenses[3] == WRITES
        lenses = await client.lenses(client.open(copy(PI, home)))
        assert all(titles[:1] == ["branch here"] for titles in lenses.values())
        assert any("compact up to here" in titles for titles in lenses.values())
        lenses = await client.lenses(client.open(copy(SHARUR, home)))
        assert [*lenses.values()][-1] == WRITES
        for read_only in (LINEAR, CLAUDE):
            lenses = await client.lenses(client.open(copy(read_only, home)))
            assert len(lenses) >= 5
            assert all(titles == READS for titles in lenses.values())


async def test_the_commands_of_an_entry_are_code_actions_too(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        actions = await client.actions(uri, 3)
        assert [action.title for action in actions] == WRITES
        assert await client.actions(uri, 3, only=["quickfix"]) == []
        assert await client.actions(uri, 999) == []


async def test_a_branch_moves_main_or_puts_a_new_head(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        # Nothing was chosen, so nothing is done.
        assert await client.run("sessiond.branch", uri, "n4") is None
        assert client.asked == [["Move main here", "New head here"]]
        client.choice = "New head here"
        moved = await client.run("sessiond.branch", uri, "n4")
        assert moved["head"] == "branch-1"
        client.choice = "Move main here"
        assert (await client.run("sessiond.branch", uri, "n5"))["head"] == "main"
        assert (await client.run("sessiond.branch", uri, "n6", "review"))["head"] == "review"
        assert "stands at line 7 now" in [await client.message() for _ in range(3)][-1]
        session = await other.open(path=str(path))
        places = {head.name: head.leaf_id for head in await other.heads(session.id)}
        assert places == {**places, "branch-1": "n4", "main": "n5", "review": "n6"}

        # A file of another program has one head.
        uri = client.open(copy(PI, home))
        assert (await client.run("sessiond.branch", uri, "10000004"))["head"] == "main"
        assert client.asked[-1] == ["Move main here"]


async def test_a_label_is_chosen_given_or_cleared(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        for sample, entry_id, line in ((NATIVE, "n3", 3), (PI, "10000003", 3)):
            uri = client.open(copy(sample, home))
            before = await client.lenses(uri)
            assert "label" in before[line]
            client.choice = "bookmark"
            assert (await client.run("sessiond.label", uri, entry_id))["label"] == "bookmark"
            assert client.asked[-1][-2:] == ["bookmark", "todo"]
            assert "Clear the label" not in client.asked[-1]
            while "label: bookmark" not in (await client.lenses(uri))[line]:
                # Its event is on the way.
                continue
            await client.run("sessiond.label", uri, entry_id, "two words")
            while "label: two words" not in (await client.lenses(uri))[line]:
                continue
            client.choice = "Clear the label"
            assert (await client.run("sessiond.label", uri, entry_id))["label"] is None
            while "label" not in (await client.lenses(uri))[line]:
                continue


async def test_a_context_is_shown_as_a_document_of_the_user(server: Daemon, home: Path) -> None:
    path = home
    async with editor(server) as client:
        for sample, entry_id, count in ((NATIVE, "n5", 3), (PI, "10000005", 3), (LINEAR, None, 1)):
            uri = client.open(copy(sample, home))
            if entry_id is None:
                lens = types.CodeLensParams(types.TextDocumentIdentifier(uri))
                first = (await client.ask(types.TEXT_DOCUMENT_CODE_LENS, lens))[0]
                entry_id = first.command.arguments[1]
            told = await client.run("sessiond.context", uri, entry_id)
            assert told["messages"] == count
            path = Path(urlsplit(client.shown[-1]).path)
            assert str(path) == told["path"]
            assert path.parent.stat().st_mode & 0o077 == 0
            assert len(json.loads(path.read_bytes())["messages"]) == count
    assert not path.parent.exists()


async def test_a_compaction_keeps_from_the_entry_on(server: Daemon, home: Path) -> None:
    path = copy(PI, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        lens = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        found = await client.ask(types.TEXT_DOCUMENT_CODE_LENS, lens)
        entry_id = next(
            one.command.arguments[1] for one in found if one.command.title == "compact up to here"
        )
        assert await client.run("sessiond.compact", uri, entry_id) is None
        made = await client.run("sessiond.compact", uri, entry_id, "In short.")
        session = await other.open(path=str(path))
        stored = (await other.entry(session.id, made["leaf_id"])).entry
        assert (stored["type"], stored["summary"]) == ("compaction", "In short.")
        assert stored["first_kept_entry_id"] == entry_id


async def test_the_daemon_has_a_summary_written_of_what_stands_before_an_entry(
    server: Daemon, home: Path
) -> None:
    async with editor(server) as client, connect(server.socket_path) as other:
        session = (await other.create(cwd="/p", persist="immediate")).session
        for name in ("u1", "u2", "u3"):
            message = {"role": "user", "content": f"question {name}"}
            await other.append(
                session.id, entry={"type": "message", "id": name, "message": message}
            )
        uri = client.open(Path(session.path or ""))
        lenses = await client.lenses(uri)
        assert ["compact up to here" in lenses[line] for line in (1, 2, 3)] == [False, True, True]
        client.choice = "Compact"
        refused = await client.refusal("sessiond.compact", uri, "u2")
        assert "compaction refused (summarizer_unavailable)" in refused
        async with other.offer(summarize=True) as asked:
            compacted = asyncio.ensure_future(client.run("sessiond.compact", uri, "u2"))
            async for one in asked:
                assert isinstance(one.about, Summarize)
                assert "question u1" in one.about.prompt
                assert "question u2" not in one.about.prompt
                one.answer("In short.")
                break
            made = await compacted
        stored = (await other.entry(session.id, made["leaf_id"])).entry
        assert (stored["summary"], stored["first_kept_entry_id"]) == ("In short.", "u2")


async def test_a_command_that_cannot_be_carried_out_says_why(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        nothing = await client.refusal("sessiond.branch", uri, "nothing-here", "main")
        assert "branch refused (entry_not_found)" in nothing
        assert "takes a list of uri, entry_id, label" in await client.refusal("sessiond.label", uri)
        assert "takes a list" in await client.refusal("sessiond.label", uri, "n3", 7)
        assert "takes a list" in await client.refusal("sessiond.context", uri, "n3", "more")
        assert "no command has this name" in await client.refusal("sessiond.unheard", uri)
        assert "not open in this editor" in await client.refusal("sessiond.repair", "file:///no")
        for read_only in (LINEAR, CLAUDE):
            uri = client.open(copy(read_only, home))
            refused = await client.refusal("sessiond.label", uri, "n3", "x")
            assert "does not write to this file" in refused


async def test_without_a_daemon_a_command_says_so(server: Daemon, home: Path) -> None:
    async with editor(server, "--no-start") as client:
        uri = client.open(copy(NATIVE, home))
        assert await client.lenses(uri) != {}
        server.end(signal.SIGKILL)
        assert "the daemon ended" in await client.message()
        for command in ("branch", "label", "context", "compact"):
            refused = await client.refusal(f"sessiond.{command}", uri, "n4")
            assert "no daemon answers" in refused
        assert "no daemon answers" in await client.refusal("sessiond.repair", uri)
        assert await client.lenses(uri) == {}
        server.start()
        while await client.lenses(uri) == {}:
            continue
        assert (await client.run("sessiond.label", uri, "n4", "back"))["label"] == "back"
