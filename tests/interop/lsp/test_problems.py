"""Damage and foreign lines as problems in an editor."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from sessiond_client import connect
from tests.interop.lsp.editor import NATIVE, PI, copy, editor, member, whole
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop]


async def test_a_damaged_file_shows_where(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    orphan = '{"type":"message","id":"x1","parent_id":"gone","timestamp":"2026-01-15T10:30:00Z","message":{"role":"user","content":"\U0001f600"}}'
    with path.open("a", encoding="utf-8") as file:
        file.write(f"this is no JSON\n{orphan}\n")
    async with editor(server) as client:
        uri = client.open(path)
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 23), ("orphan", 24)]
        assert shown[1].severity == types.DiagnosticSeverity.Error
        line, start, end = member(path, 24, "parent_id")
        assert shown[2].range == types.Range(types.Position(line, start), types.Position(line, end))
        # The good lines answer as ever.
        assert str(await client.hover(uri, 24)).startswith("message, user\nid: x1")
        assert await client.hover(uri, 23) is None

        client.close(uri)
        assert await client.problems(uri) == []


async def test_damage_by_another_program_is_shown_while_the_file_is_open(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    async with editor(server) as client:
        uri = client.open(path)
        assert await client.problems(uri) == []
        # A line that is no entry is no event.
        with path.open("ab") as file:
            file.write(b"this is no JSON\n")
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("changed_on_disk", 0)]
        assert "line 24 " in shown[0].message
        # The editor reads it again, and each problem has its place.
        client.edit(uri, ((23, 0), (23, 0), "this is no JSON\n"))
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 23)]
        client.edit(uri, ((23, 0), (24, 0), ""))
        path.write_bytes(good)
        client.save(uri)
        while shown:
            shown = await client.problems(uri)
        # In place, as an editor saves: the lines are others than the text has.
        path.write_bytes(good.replace(b'"type":"model_change"', b'"type" "model_change"', 1))
        while [whole(one) for one in shown] != [("changed_on_disk", 0)]:
            shown = await client.problems(uri)
        assert "line 3 " in shown[0].message
        path.write_bytes(good)
        while shown:
            shown = await client.problems(uri)


async def test_half_a_line_is_shown_until_it_is_taken_out(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"message","id":"x1","parent_id":"n22","time')
    async with editor(server) as client:
        uri = client.open(path)
        assert [whole(one) for one in await client.problems(uri)] == [("torn_tail", 23)]
        # Reading it cut nothing: whoever edits the file takes the half out.
        assert path.read_bytes() != good
        path.write_bytes(good)
        client.edit(uri, ((23, 0), (24, 0), ""))
        client.save(uri)
        assert await client.problems(uri) == []


@pytest.mark.parametrize("content", ['{"hello":"world"}\n', "", "plain text", "[1]\n[2]\n"])
async def test_a_file_that_is_no_session_says_so_once(
    server: Daemon, home: Path, content: str
) -> None:
    path = home / "other.jsonl"
    path.write_text(content, "utf-8")
    async with editor(server) as client:
        uri = client.open(path)
        (one,) = await client.problems(uri)
        assert whole(one) == ("session_corrupt", 0)
        assert one.severity == types.DiagnosticSeverity.Information
        assert one.message.startswith("not read as a session: ")
        assert await client.symbols(uri) == []
        assert await client.hover(uri, 0) is None
        # It becomes one when it is saved as one.
        path.write_bytes(PI.read_bytes())
        client.edit(uri, ((0, 0), (99, 0), PI.read_text("utf-8")))
        client.save(uri)
        assert await client.problems(uri) == []
        assert len(await client.symbols(uri)) > 5


async def test_a_file_that_another_daemon_holds_says_who(
    server: Daemon, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy(PI, home)
    monkeypatch.setenv("SESSIOND_PROFILE", "other")
    with running(Daemon(tmp_path / "o", server.home)) as other, other.connect() as link:
        link.ask("session/open", path=str(path))
        monkeypatch.delenv("SESSIOND_PROFILE")
        async with editor(server) as client:
            uri = client.open(path)
            (one,) = await client.problems(uri)
            assert whole(one) == ("session_locked", 0)
            assert str(other.pid) in one.message


async def test_what_is_not_saved_moves_lines_and_shows_no_problems(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client:
        uri = client.open(path)
        assert await client.problems(uri) == []
        client.edit(uri, ((1, 0), (1, 0), "not JSON\nnor this \U0001f600\n"))
        assert "\nid: n4\n" in str(await client.hover(uri, 6))
        assert "\nline: 7\nseq: 4\n" in str(await client.hover(uri, 6))
        assert await client.hover(uri, 1) is None
        assert (await client.symbols(uri))[1].range.start.line == 24
        line, start, _ = member(path, 4, "parent_id")
        there = await client.definition(uri, line + 2, start)
        assert there is not None
        assert there.range.start.line == 5
        # This is what saving shows, and nothing was shown before.
        lines = path.read_text("utf-8").split("\n")
        path.write_text(
            "\n".join([lines[0], "not JSON", "nor this \U0001f600", *lines[1:]]), "utf-8"
        )
        client.save(uri)
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 1), ("bad_line", 2)]
        # Mended by hand, and saved again.
        client.edit(uri, ((1, 0), (3, 0), ""))
        path.write_text("\n".join(lines), "utf-8")
        client.save(uri)
        assert await client.problems(uri) == []


async def test_what_others_store_is_known(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        assert "heads here: main" in str(await client.hover(uri, 22))
        session = await other.open(path=str(path))
        stored = await other.append(session.id, message={"role": "user", "content": "new"})
        while "children: 1" not in str(await client.hover(uri, 22)):
            # Its event is on the way.
            continue
        # It has no place in this text before the editor has read it.
        count = len(await client.symbols(uri))
        client.edit(uri, ((23, 0), (23, 0), path.read_text("utf-8").split("\n")[23] + "\n"))
        assert f"id: {stored.leaf_id}" in str(await client.hover(uri, 23))
        assert len(await client.symbols(uri)) == count + 1


async def test_saving_over_a_session_that_others_use_warns(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        session = await other.open(path=str(path))
        async with other.subscribe(session.id):
            client.save(uri)
            assert [whole(one) for one in await client.problems(uri)] == [("in_use", 0)]
        client.save(uri)
        assert await client.problems(uri) == []
