"""Fixes of problems: the daemon carries them out, and the editor's text is not edited."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest
from anyio import to_thread
from lsprotocol import types

from sessiond_client import connect
from tests.interop.lsp.editor import NATIVE, PI, Editor, copy, editor, whole
from tests.kit.roots import pi_line
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TORN = '{"type":"message","id":"x1","parent_id":"n22","time'
WHOLE = (
    '{"type":"message","id":"x2","parent_id":"n22","timestamp":"2026-01-15T10:31:00Z",'
    '"message":{"role":"user","content":"kept"}}'
)
CALL = (
    '{"type":"session_header","version":1,"id":"open-calls","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}',
    (
        '{"type":"message","id":"u1","parent_id":null,"timestamp":"2026-01-15T10:30:00Z",'
        '"message":{"role":"user","content":"Look"}}'
    ),
    (
        '{"type":"message","id":"a1","parent_id":"u1","timestamp":"2026-01-15T10:30:01Z",'
        '"message":{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"ls",'
        '"input":{}},{"type":"tool_use","id":"c2","name":"pwd","input":{}}]}}'
    ),
)


async def shown(client: Editor, uri: str, *wanted: tuple[str, int]) -> list[types.Diagnostic]:
    """Return the problems of a file once they are these."""
    while True:
        found = await client.problems(uri)
        if [whole(one) for one in found] == [*wanted]:
            return found


async def test_a_line_torn_while_the_file_is_open_is_left_out(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    async with editor(server) as client:
        uri = client.open(path)
        assert await client.problems(uri) == []
        with path.open("ab") as file:
            file.write(f"{TORN}\n{WHOLE}\n".encode())
        await shown(client, uri, ("changed_on_disk", 0))
        # The editor reads the file again.
        client.edit(uri, ((23, 0), (23, 0), f"{TORN}\n{WHOLE}\n"))
        problems = await shown(client, uri, ("read_only", 0), ("bad_line", 23))
        done = await client.fix(uri, problems[1])
        assert done["dropped_lines"] == [24]
        assert (await client.message()).startswith("1 line left out, the old file is ")
        assert path.read_bytes() == good + f"{WHOLE}\n".encode()
        assert TORN.encode() in Path(done["backup"]).read_bytes()
        # The text has the line until the editor reads the file again.
        client.edit(uri, ((23, 0), (24, 0), ""))
        await shown(client, uri)
        assert "\nid: x2\n" in str(await client.hover(uri, 23))
        # The lines still there are those of the trash, byte for byte, and appends work again.
        assert (await client.run("sessiond.label", uri, "x2", "new"))["label"] == "new"


async def test_half_a_line_at_the_end_is_left_out(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    with path.open("ab") as file:
        file.write(TORN.encode())
    async with editor(server) as client:
        uri = client.open(path)
        (problem,) = await shown(client, uri, ("torn_tail", 23))
        assert (await client.fix(uri, problem))["repaired"] is True
        assert path.read_bytes() == good


async def test_an_entry_without_a_parent_goes_on_at_the_entry_before(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    with path.open("ab") as file:
        file.write(f"{WHOLE.replace('n22', 'gone')}\n".encode())
    async with editor(server) as client:
        uri = client.open(path)
        (problem,) = await shown(client, uri, ("orphan", 23))
        (action,) = await client.actions(uri, 23, [problem], ["quickfix"])
        assert "below a parent" in action.title
        done = await client.fix(uri, problem)
        assert (done["repaired"], done["dropped_lines"]) == (True, [])
        said = await client.message()
        assert said.startswith("1 entry put below another parent, the old file is ")
        assert path.read_bytes() == good + f"{WHOLE}\n".encode()


async def test_a_repair_loses_nothing_that_is_written_meanwhile(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    with path.open("ab") as file:
        file.write(f"{TORN}\n".encode())
    written: list[str] = []
    begun, ended = anyio.Event(), anyio.Event()

    def write(number: int) -> None:
        # A program that knows nothing of sessiond: it opens the file for each line.
        line = WHOLE.replace("x2", f"w{number}")
        with path.open("ab") as file:
            file.write(f"{line}\n".encode())
        written.append(line)

    async def keep_writing() -> None:
        number = 0
        while not ended.is_set() or number < 20:
            number += 1
            await to_thread.run_sync(write, number)
            begun.set()

    async with editor(server) as client:
        uri = client.open(path)
        problems = await shown(client, uri, ("read_only", 0), ("bad_line", 23))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_writing)
            await begun.wait()
            assert (await client.fix(uri, problems[1]))["repaired"] is True
            ended.set()
    lines = path.read_bytes()
    assert lines.startswith(good)
    found = lines[len(good) :].decode().split("\n")
    # A line that went into the old file at the last moment may stand behind its successor.
    assert sorted(found) == sorted([*written, ""])


async def test_what_no_call_takes_away_says_why(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    with path.open("ab") as file:
        file.write(f"{WHOLE}\n{WHOLE}\n".encode())
    foreign = copy(PI, home)
    damage = b"no JSON\n" + msgspec.json.encode(pi_line("1000ffff", "gone", "kept")) + b"\n"
    with foreign.open("ab") as file:
        file.write(damage)
    async with editor(server) as client:
        uri = client.open(path)
        problems = await shown(client, uri, ("duplicate_id", 24))
        (action,) = await client.actions(uri, 24, problems, ["quickfix"])
        assert action.disabled is not None
        assert "the later one" in action.disabled.reason
        assert action.command is None
        assert action.edit is None
        uri = client.open(foreign)
        last = PI.read_bytes().count(b"\n")
        for problem in await shown(client, uri, ("bad_line", last), ("orphan", last + 1)):
            (action,) = await client.actions(uri, last, [problem], ["quickfix"])
            assert action.disabled is not None
            assert "another program" in action.disabled.reason
        refused = await client.refusal("sessiond.repair", uri)
        assert "repair refused (session_corrupt)" in refused
        assert foreign.read_bytes() == PI.read_bytes() + damage


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_open_calls_at_the_end_get_results(server: Daemon, home: Path, dialect: str) -> None:
    path = home / "left.jsonl"
    lines = CALL if dialect == "native" else PI.read_text("utf-8").split("\n")[:5]
    kept = "\n".join([*lines, ""])
    path.write_text(kept, "utf-8")
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        last = len(lines) - 1
        (problem,) = await shown(client, uri, ("missing_result", last))
        assert problem.severity == types.DiagnosticSeverity.Information
        results = (await client.fix(uri, problem))["results"]
        assert results == (2 if dialect == "native" else 1)
        said = "2 results appended" if results == 2 else "1 result appended"
        assert await client.message() == said
        session = await other.open(path=str(path))
        context = await other.build_context(session.id)
        assert all(b"INTERRUPTED" in bytes(one) for one in context.raw_messages[-results:])
        text = path.read_text("utf-8")
        assert text.startswith(kept)
        client.edit(uri, ((last + 1, 0), (last + 1, 0), text[len(kept) :]))
        await shown(client, uri)
        again = await client.refusal("sessiond.repair", uri, context.sources[-results - 1])
        assert "has a result" in again


async def test_a_client_that_works_has_no_open_calls(server: Daemon, home: Path) -> None:
    path = home / "pi.jsonl"
    path.write_bytes(b"\n".join(PI.read_bytes().split(b"\n")[:5]) + b"\n")
    async with editor(server) as client, connect(server.socket_path) as other:
        session = await other.open(path=str(path))
        async with other.subscribe(session.id):
            await other.presence(session.id, state="executing")
            uri = client.open(path)
            assert await client.problems(uri) == []
