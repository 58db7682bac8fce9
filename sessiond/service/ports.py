"""Protocols for the outside of the service.

The service knows no JSON-RPC and no sockets: a `Ticket` is a request that waits for its answer,
and a `Listener` is a connection that takes bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import anyio
from msgspec import Raw, UnsetType

from sessiond.errors import SessiondError
from sessiond.model.events import Figures
from sessiond.model.requests import Purpose, Reply


class Listener(Protocol):
    """Connection as subscriptions see it. Only `wait_room` waits."""

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Function that frames a body; one per framing, so its identity tells which frames are shared."""
        ...

    def offer(self, frames: bytes, /) -> bool:
        """Queue framed events; return False if the outbox is full."""
        ...

    def deliver(self, frames: bytes, /) -> bool:
        """Queue framed events and send what is queued; return False if the outbox is full."""
        ...

    def put(self, frame: bytes, /) -> None:
        """Queue one frame that must not be dropped."""
        ...

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        ...

    async def wait_room(self) -> None:
        """Wait until there is room for events again."""
        ...

    @property
    def replay_turn(self) -> anyio.Lock:
        """Lock of the one replay that reads lines for this connection."""
        ...

    def close(self) -> None:
        """Read no more, answer the received requests, then close."""
        ...

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in a task that ends with the connection."""
        ...


class Partner(Listener, Protocol):
    """Connection that can also be sent requests."""

    def answer_all(self, tickets: Sequence[Any], results: Sequence[bytes], /) -> None:
        """Queue the answers, JSON already, to several tickets of this connection in one piece."""
        ...

    def request(
        self, method: str, params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Queue a request to the client; its reply goes to `settle`, once.

        The returned function withdraws the request if there is no reply yet.
        """
        ...


class Consulted(Protocol):
    """Client as a helper of the daemon."""

    @property
    def client_id(self) -> str | None:
        """Id that the client chose."""
        ...

    @property
    def name(self) -> str | None:
        """Name of the client's program."""
        ...

    @property
    def summarizes(self) -> frozenset[Purpose]:
        """Purposes for which the client offered to write summaries."""
        ...

    @property
    def listener(self) -> Partner:
        """Connection of the client."""
        ...

    def watches(self, session_id: str) -> bool:
        """Return whether the client has subscribed to a session."""
        ...


class Progress(Protocol):
    """Progress of work, for a client that asked for it."""

    @property
    def token(self) -> str | int | None:
        """Token that the client chose for its request; None if it asked for no progress."""
        ...

    @property
    def latest(self) -> Figures | None:
        """Latest report."""
        ...

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Report how much is done, of how many (None: unknown). From any thread, for every item."""
        ...


class Asker(Protocol):
    """Asker of the lists: is told how far the look is, and if the answer may be old."""

    result_meta: bytes | None
    """Member `_meta` of the result, as JSON."""

    @property
    def progress(self) -> Progress:
        """Progress of the work for the asker; never None."""
        ...


class Ticket(Asker, Protocol):
    """Request that waits for its answer. Settled once, by `answer` or `fail`."""

    @property
    def client(self) -> Any:
        """The `Client` that sent the request."""
        ...

    @property
    def origin_id(self) -> Raw | UnsetType:
        """Id of the request for events, as it was sent."""
        ...

    def answer(self, result: Any) -> None:
        """Queue the answer."""
        ...

    def fail(self, error: SessiondError) -> None:
        """Queue an error."""
        ...

    def flush(self) -> None:
        """Send what is queued."""
        ...

    def defer(self, on_cancel: Callable[[], None]) -> None:
        """Declare that the answer comes later, and how the request is cancelled."""
        ...


class NoSummary(Exception):
    """Failed request for a summary; the text says why, in a few words."""


class Summarizer(Protocol):
    """Program outside that writes summaries if no client does."""

    @property
    def is_there(self) -> bool:
        """True if a program is configured."""
        ...

    async def summarize(self, prompt: str, purpose: Purpose) -> str:
        """Return the program's summary, unchecked. Raise NoSummary."""
        ...
