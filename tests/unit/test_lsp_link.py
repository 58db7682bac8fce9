"""The language server's link: a daemon that hangs is none, and what the old daemon left open the next one answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import anyio
import pytest

from sessiond.lsp import link as links
from sessiond.lsp.editor import Editor
from sessiond_client import Client, Timeout
from tests.kit.patience import eventually

pytestmark = pytest.mark.both_loops


class Daemon:
    """A daemon at a socket that answers pings, unless it hangs, and keeps every other request."""

    def __init__(self, path: Path, *, answers: bool = False, hangs: bool = False) -> None:
        self.hangs = hangs
        self.asked: list[str] = []
        self._answers = answers
        self._is_over = False
        self._path = path
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it: no connection gets another word."""
        self._is_over = True
        self._path.unlink(missing_ok=True)
        for one in (self._listener, *self._connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with self._listener, suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                if self._is_over:
                    # It was accepted while the others were ended.
                    connection.shutdown(socket.SHUT_RDWR)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                request = json.loads(line)
                self.asked.append(request["method"])
                is_greeting = request["method"] in {"initialize", "server/ping"}
                if not self.hangs and (is_greeting or self._answers):
                    answer = {"jsonrpc": "2.0", "id": request["id"], "result": {}}
                    connection.sendall(json.dumps(answer).encode() + b"\n")


@asynccontextmanager
async def editing(path: Path) -> AsyncGenerator[tuple[Editor, list[bool], list[str]]]:
    """Run the documents of an editor; yield them, what was asked of starts, and what was said."""
    starts, said = list[bool](), list[str]()

    def join(may_start: bool) -> Path:
        starts.append(may_start)
        return path

    def nothing(*_: object) -> None:
        return

    editor = Editor(join, publish=nothing, refresh=nothing, say=said.append, progress=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(editor.run)
        yield editor, starts, said
        tasks.cancel_scope.cancel()


async def entry(client: Client) -> Any:
    """Ask a question."""
    return await client.call("session/get", session_id="s")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


async def test_a_socket_at_which_nobody_answers_is_no_daemon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        async with editing(path) as (editor, _, said):
            assert await editor.client() is None
            (told,) = said
    assert told.startswith("sessiond: no answer to server/ping in time; ")


async def test_a_daemon_that_hangs_behind_a_question_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def impatient(client: Client) -> Any:
        return await client.call("session/get", session_id="s", timeout=0.05)

    with Daemon(path) as daemon:
        async with editing(path) as (editor, _, said):
            first = await editor.client()
            with pytest.raises(Timeout):
                await editor.ask(impatient)
            # It answers pings, so it is only slow.
            assert await editor.client() is first
            monkeypatch.setattr(links, "ANSWER_SECONDS", 0.05)
            daemon.hangs = True
            with pytest.raises(Timeout):
                await editor.ask(impatient)
            assert await editor.client() is None
            await eventually(lambda: said)
            assert "no answer to server/ping in time" in said[0]


async def test_a_question_is_asked_again_of_the_next_daemon(path: Path) -> None:
    answers = list[Any]()
    with Daemon(path) as old:
        async with editing(path) as (editor, starts, _), anyio.create_task_group() as tasks:

            async def ask() -> None:
                answers.append(await editor.ask(entry))

            await editor.client()
            tasks.start_soon(ask)
            await eventually(lambda: "session/get" in old.asked)
            old.kill()
            with Daemon(path, answers=True):
                await eventually(lambda: answers)
    assert answers == [{}]
    assert starts[:2] == [True, True]


async def test_a_daemon_that_nobody_waits_for_is_not_started_again(path: Path) -> None:
    with Daemon(path) as daemon:
        async with editing(path) as (editor, starts, said):
            await editor.client()
            await editor.client()
            daemon.kill()
            await eventually(lambda: len(starts) == 2)
    assert starts[:2] == [True, False]
    assert "the daemon ended" in said[0]


async def test_a_question_that_comes_to_an_attempt_without_a_start_waits_for_one_with(
    path: Path,
) -> None:
    answers = list[Any]()
    with Daemon(path) as old:
        async with editing(path) as (editor, starts, _), anyio.create_task_group() as tasks:
            await editor.client()
            old.kill()
            with Daemon(path, hangs=True) as silent:
                await eventually(lambda: silent.asked)
                assert starts == [True, False]

                async def ask() -> None:
                    answers.append(await editor.ask(entry))

                tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                silent.kill()
                with Daemon(path, answers=True):
                    await eventually(lambda: answers)
    assert answers == [{}]
    assert starts[2] is True
