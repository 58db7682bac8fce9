"""Today's commands and clients beside a daemon of an earlier version, and its commands beside today's daemon."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from click.testing import CliRunner, Result
from msgspec import Raw

from sessiond import __version__
from sessiond.browse import link as browse
from sessiond.build import BUILD
from sessiond.cli import main
from sessiond.cli.connect.conversation import Members, read
from sessiond.journal.disk.files import Files
from sessiond.lsp import link as lsp
from sessiond_client import Client, connect, connect_blocking, difference
from sessiond_client.versions import Introduction
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS
from tests.versions.talk import COMMANDS, RECORDINGS, Talk, played

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")
FILES = sorted(RECORDINGS.glob("*.jsonl"))
OLDER = f"the running daemon is older (0.1.0) than this program ({__version__})"


def recorded(file: Path, side: str) -> dict[str, Talk]:
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return {row["command"]: row["talk"] for row in rows if row["side"] == side}


def whole(file: Path) -> Talk:
    return [pair for talk in recorded(file, "later").values() for pair in talk]


def command(line: str, place: Path) -> Result:
    words = ["--socket", str(place), *line.split()]
    return CliRunner().invoke(main, words, env={"SESSIOND_HOME": None, "HOME": str(place.parent)})


def lost(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Yield the members of an older answer that a newer one lacks, or has with another type."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from (f"{at}.{name}" for name in old.keys() - new.keys())
        for name in old.keys() & new.keys():
            yield from lost(old[name], new[name], f"{at}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        for pair in zip(old, new, strict=False):
            yield from lost(*pair, f"{at}[]")
    elif old is not None and new is not None and type(old) is not type(new):
        yield at


def test_there_is_a_recording() -> None:
    assert FILES
    for file in FILES:
        assert {*recorded(file, "earlier")} == {*recorded(file, "later")} == {*COMMANDS}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_beside_an_older_daemon_says_so_in_one_line_and_works(
    file: Path, line: str, socket_path: Path
) -> None:
    talk = recorded(file, "later")[line]
    with played(socket_path, talk):
        done = command(line, socket_path)
    # What the daemon does not have is refused; everything else is answered.
    refused = [request["method"] for request, answer in talk if "error" in answer]
    assert done.exit_code == bool(refused), (done.stdout, done.stderr, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert [OLDER in one for one in done.stderr.splitlines()].count(True) == 1, done.stderr
    if line == "list --json":
        assert json.loads(done.stdout)["sessions"]


def grown(value: Any, name: str = "") -> Any:
    """Return an answer of a newer daemon: each object has a member that no client of today knows."""
    if isinstance(value, list):
        return [grown(one) for one in value]
    if not isinstance(value, dict):
        return "9.0.0" if name == "version" else value
    more = {} if name == "sessions" else {"x_newer": {"x": [1]}}  # `sessions` has ids for names
    return {name: grown(one, name) for name, one in value.items()} | more


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_beside_a_newer_daemon_says_so_and_passes_over_what_it_does_not_know(
    file: Path, line: str, socket_path: Path
) -> None:
    talk = recorded(file, "later")[line]
    with played(socket_path, grown(talk)):
        done = command(line, socket_path)
    assert done.exit_code == any("error" in answer for _, answer in talk), done.exception
    assert f"newer (9.0.0) than this program ({__version__})" in done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_doctor_beside_an_older_daemon_says_so(file: Path, socket_path: Path) -> None:
    with played(socket_path, whole(file)):
        done = command("doctor", socket_path)
    (line,) = [one for one in done.stdout.splitlines() if one[4:].startswith("daemon ")]
    assert line.startswith("!!")
    assert OLDER in line
    assert line.endswith(f": `sessiond restart --socket {socket_path}` replaces it")


def test_the_doctor_shows_a_version_whole(socket_path: Path) -> None:
    talk = json.dumps(whole(FILES[0])).replace('"version": "0.1.0"', '"version": "0.1.0: `x`"')
    with played(socket_path, json.loads(talk)):
        done = command("doctor", socket_path)
    assert (
        f"older (0.1.0: `x`) than this program ({__version__}): `sessiond restart --socket "
        in done.stdout
    )


@pytest.mark.parametrize(
    ("age", "version"), [("older", "0.1.0"), ("newer", "9.0.0")], ids=["older", "newer"]
)
@pytest.mark.parametrize("is_framed", [False, True], ids=["lines", "frames"])
def test_stdio_says_it_once_and_passes_every_byte(
    age: str, version: str, socket_path: Path, *, is_framed: bool
) -> None:
    talk = whole(FILES[0])
    asked = [b'{"id":1,"method":"initialize","params":{}}', b'{"id":2,"method":"session/list"}']
    if is_framed:
        sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(one), one) for one in asked)
    else:
        sent = b"".join(one + b"\n" for one in asked)
    with played(socket_path, talk if age == "older" else grown(talk)):
        with closing(socket.socket(socket.AF_UNIX)) as direct:
            direct.connect(str(socket_path))
            direct.sendall(sent)
            direct.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: direct.recv(1 << 16), b""))
        done = subprocess.run(
            [sys.executable, "-m", "sessiond", "--socket", socket_path, "stdio"],
            input=sent,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    assert done.stdout == answers
    (line,) = done.stderr.decode().splitlines()
    assert (
        f"{age} ({version}) than this program ({__version__}): `sessiond restart --socket " in line
    )


def test_another_build_of_one_version_is_told_and_an_equal_one_is_not() -> None:
    assert difference(__version__, BUILD, BUILD) is None
    assert difference(__version__) is None
    assert "another build" in str(difference(__version__, "0", BUILD))
    assert "older (0.0.9)" in str(difference("0.0.9", BUILD, BUILD))
    assert "newer (0.10.0)" in str(difference("0.10.0", BUILD, BUILD))


@on_asyncio
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_client_beside_an_older_daemon_logs_it_once_and_reads_its_answers(
    file: Path, socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sessiond_client")

    def in_threads() -> None:
        with connect_blocking(socket_path) as client:
            (session,) = client.list().sessions
            assert session.agent_program is None
            assert client.get(session.id).message_count == 2

    with played(socket_path, whole(file)):
        async with connect(socket_path) as client:
            (session,) = (await client.list()).sessions
            assert session.turn_count is None
            assert len((await client.path(session.id)).entries) == 2
            for ask in (client.heads, client.tree, client.entries, client.usage, client.labels):
                await ask(session.id)
            for examine in (
                client.verify,
                client.repair,
                client.build_context,
                client.plan_compaction,
            ):
                await examine(session.id)
            await client.search("Hello")
            await client.trash()
        await to_thread.run_sync(in_threads)
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == [OLDER] * 2


@on_asyncio
async def test_a_program_is_told_of_a_daemon_once_and_not_warned(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    met: list[tuple[str, str]] = []
    with played(socket_path, whole(FILES[0])):
        async with connect(socket_path, on_daemon=lambda *told: met.append(told)) as client:
            for _ in range(2):
                await client.list()
    assert met == [("0.1.0", "")]
    assert caplog.records == []


@on_asyncio
async def test_a_language_server_and_the_application_show_it_once(socket_path: Path) -> None:
    said: list[str] = []

    async def once(client: Client) -> None:
        await client.list()
        tasks.cancel_scope.cancel()

    with played(socket_path, whole(FILES[0])):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lsp.Link(lambda _: socket_path, said.append).run, once)
        link = browse.Link(
            socket_path, None, lost=said.append, found=lambda: None, differs=said.append
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await once(await link.client())
    assert [one.removeprefix("sessiond: ").partition(":")[0] for one in said] == [OLDER] * 2


@on_asyncio
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_the_requests_of_an_older_command_line_get_every_member_that_it_read(
    file: Path, home: Path
) -> None:
    ids: dict[str, str] = {}

    def of_today(value: Any) -> Any:
        told = json.dumps(value)
        for old, new in ids.items():
            told = told.replace(old, new)
        return json.loads(told)

    async with House(home, Files()).daemon() as daemon, daemon.connect() as wire:
        for talk in recorded(file, "earlier").values():
            for request, answer in talk:
                told = await wire.call(request["method"], **of_today(request.get("params", {})))
                if request["method"] == "session/create":
                    ids[answer["result"]["session"]["id"]] = told["session"]["id"]
                assert [*lost(of_today(answer["result"]), told)] == [], request["method"]


@pytest.mark.parametrize("answer", [b"7", b'{"server_info":"x"}', b'{"x":' + b"[" * 100_000])
def test_an_answer_that_says_nothing_of_a_daemon_is_passed_over(answer: bytes) -> None:
    met: list[tuple[str, str]] = []
    Introduction(lambda *told: met.append(told)).met(Raw(answer))
    assert met == []


def test_unknown_members_pass_and_missing_ones_are_none() -> None:
    found = read(b'{"sessions":[{"id":"a","new":{"deep":1}}]}')
    assert isinstance(found["sessions"][0], Members)
    assert found["sessions"][0]["agent_program"] is None
    assert found["sessions"][0]["new"]["deep"] == 1
