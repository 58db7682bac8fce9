"""Link: the one client of the application, and the knowledge whether a daemon is there.

Rule 1: the client lives as long as the application. Calls and subscriptions outlive a lost
connection: a call is sent again where that is safe, a subscription goes on at its cursor.

Rule 2: a daemon is started when the user asks for something, or waits for an answer as one ends, never
because one ended: a user who stops the daemon wants it stopped. A second, silent connection notices the end at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from sessiond.build import BUILD
from sessiond_client import Client, connect, difference
from sessiond_client.reach import Port

CALL_SECONDS: Final = 30.0
_LOOK_FIRST_SECONDS: Final = 0.05
_LOOK_LONGEST_SECONDS: Final = 2.0

Start = Callable[[], None]
"""Function that starts a daemon if none runs. Blocks; raises CannotStart."""


class CannotStart(Exception):
    """Lack of a daemon that could not be started; the text tells why and what to do."""


class Link:
    """The client, and whether its daemon listens."""

    def __init__(
        self,
        socket: Path,
        start: Start | None,
        *,
        lost: Callable[[str], None],
        found: Callable[[], None],
        differs: Callable[[str], None],
    ) -> None:
        """`start` is None if no daemon may be started; `lost` and `found` are told of changes.

        `differs` is told that the daemon is of another version or build.
        """
        self.is_there = True
        self.waiting = 0
        """Number of the user's commands that wait for the daemon."""
        self._socket = socket
        self._start = start
        self._lost = lost
        self._found = found
        self._differs = differs
        self._is_wanted = anyio.Event()
        self._client: Client | None = None
        self._is_ready = anyio.Event()

    async def client(self) -> Client:
        """Return the client. While no daemon is there, ask for one to be started."""
        if not self.is_there:
            self._is_wanted.set()
        await self._is_ready.wait()
        assert self._client is not None
        return self._client

    async def run(self) -> None:
        """Connect, and watch the daemon until cancelled."""
        who = connect(
            self._socket,
            timeout=CALL_SECONDS,
            connect_timeout=CALL_SECONDS,
            client_id="sessiond-browse",
            start=False,
            on_daemon=self._tell_another,
        )
        async with who as self._client:
            self._is_ready.set()
            while True:
                await self._watch()

    async def _watch(self) -> None:
        """Watch one daemon until it ends, then wait until a daemon listens."""
        with suppress(OSError), closing(Port(self._socket)) as port:
            self._tell_found()
            while port.receive() != b"":
                await anyio.wait_readable(port.socket)
        self.is_there = False
        self._lost("the daemon ended; any command starts it, what is shown goes on when it is back")
        await self._until_there()

    async def _until_there(self) -> None:
        pause = _LOOK_FIRST_SECONDS
        self._is_wanted = anyio.Event()
        if self.waiting > 0:
            self._is_wanted.set()
        while True:
            with suppress(OSError), closing(Port(self._socket)):
                self._tell_found()
                return
            with anyio.move_on_after(pause):
                await self._is_wanted.wait()
            if self._is_wanted.is_set():
                self._is_wanted = anyio.Event()
                await self._try_to_start()
            pause = min(2 * pause, _LOOK_LONGEST_SECONDS)

    async def _try_to_start(self) -> None:
        if self._start is None:
            self._lost("no daemon listens: start one, or leave --no-start out")
            return
        try:
            await to_thread.run_sync(self._start, abandon_on_cancel=True)
        except CannotStart as error:
            self._lost(str(error))

    def _tell_another(self, version: str, build: str) -> None:
        if (text := difference(version, build, BUILD)) is not None:
            self._differs(text)

    def _tell_found(self) -> None:
        if not self.is_there:
            self.is_there = True
            self._found()
