"""Link: the one connection of a language server to its daemon, for all documents.

Rule 1: a daemon is started when the editor needs one, never because one ended: a user who stops the
daemon with an editor open wants it stopped.

Rule 2: a second, silent connection notices the daemon's end at once, so no question has to time
out. While there is no daemon, questions are answered with nothing.

Rule 3: a daemon that does not answer is none. It is asked when it was found, and again behind a question
that had no answer in time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from sessiond.build import BUILD
from sessiond.limits import ANSWER_SECONDS
from sessiond_client import (
    Client,
    ConnectionLost,
    SessiondClientError,
    Timeout,
    connect,
    difference,
)
from sessiond_client.reach import Port

_CALL_SECONDS: Final = 30.0
_LOOK_FIRST_SECONDS: Final = 0.1
_LOOK_LONGEST_SECONDS: Final = 5.0

Join = Callable[[bool], Path]
"""Function that returns the daemon's socket and, given True, starts a daemon if none runs.

Blocks; raises CannotJoin.
"""

Serve = Callable[[Client], Coroutine[Any, Any, None]]


class CannotJoin(Exception):
    """Lack of a daemon that could not be started; the text tells why and what to do."""


class Link:
    """A connection to the daemon that is renewed after a loss."""

    def __init__(self, join: Join, say: Callable[[str], None]) -> None:
        self._join = join
        self._say = say
        self._client: Client | None = None
        self._life: anyio.CancelScope | None = None
        self._silence: Timeout | None = None
        self._is_settled = anyio.Event()
        self._is_wanted = anyio.Event()

    async def client(self) -> Client | None:
        """Return the connected client; None if there is no daemon.

        Waits for the first attempt only, of all or behind a daemon's end.
        """
        self.want()
        await self._is_settled.wait()
        return self._client

    async def doubt(self, client: Client) -> None:
        """Ask a daemon that left a question without an answer; give it up if it does not answer this one."""
        if self._client is client and self._life is not None:
            await self._answers(client, self._life)

    async def _answers(self, client: Client, life: anyio.CancelScope) -> bool:
        """Return whether a daemon answers; end the life of the connection of one that hangs."""
        with suppress(SessiondClientError):
            try:
                await client.call("server/ping", timeout=ANSWER_SECONDS)
            except Timeout as error:
                if self._life is life:
                    self._client, self._silence = None, error
                life.cancel()
                return False
            return True
        return False

    def want(self) -> None:
        """Ask for a daemon, without a wait."""
        self._is_wanted.set()

    async def run(self, serve: Serve) -> None:
        """Serve over one connection after another.

        `serve` is cancelled when its connection is lost.
        """
        may_start, has_said, pause = True, False, _LOOK_FIRST_SECONDS
        while True:
            self._is_wanted = anyio.Event()
            try:
                await self._serve(may_start=may_start, serve=serve)
                reason = "the daemon ended"
                has_said, pause = False, _LOOK_FIRST_SECONDS
            except (CannotJoin, SessiondClientError, OSError) as error:
                reason = str(error)
                # Where a question came to an attempt that starts no daemon, the next one tells.
                if may_start or not self._is_wanted.is_set():
                    self._is_settled.set()
            if not has_said:
                self._say(
                    f"sessiond: {reason}; session files are shown as plain text until a daemon is back"
                )
                has_said = True
            with anyio.move_on_after(pause):
                await self._is_wanted.wait()
            may_start = self._is_wanted.is_set()
            pause = min(2 * pause, _LOOK_LONGEST_SECONDS)

    async def _serve(self, *, may_start: bool, serve: Serve) -> None:
        path = await to_thread.run_sync(self._join, may_start, abandon_on_cancel=True)
        who = connect(
            path,
            timeout=_CALL_SECONDS,
            client_id="sessiond-lsp",
            start=False,
            on_daemon=self._tell_another,
        )
        async with who as client:
            has_ended = False
            with closing(Port(path)) as port:
                async with anyio.create_task_group() as tasks:
                    self._life, self._silence = tasks.cancel_scope, None
                    tasks.start_soon(self._begin, client, tasks.cancel_scope, serve)
                    try:
                        await _until_gone(port)
                    finally:
                        has_ended = self._client is not None
                        self._client = None
                        if has_ended:
                            # Questions on their way want a new daemon, and wait for what the next attempt finds.
                            self._is_settled, self._is_wanted = anyio.Event(), anyio.Event()
                        client.disconnect()
                        tasks.cancel_scope.cancel()
            if not has_ended:
                text = "the daemon ended before it answered"
                raise self._silence or ConnectionLost(text, outcome_unknown=False)

    async def _begin(self, client: Client, life: anyio.CancelScope, serve: Serve) -> None:
        """Serve once the daemon has answered."""
        if await self._answers(client, life):
            self._client = client
            self._is_settled.set()
            await serve(client)

    def _tell_another(self, version: str, build: str) -> None:
        """Say that the daemon is of another version or build than this server, if it is."""
        if (text := difference(version, build, BUILD)) is not None:
            self._say(f"sessiond: {text}")


async def _until_gone(port: Port) -> None:
    with suppress(OSError):
        while port.receive() != b"":
            await anyio.wait_readable(port.socket)
