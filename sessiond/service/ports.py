"""What the service needs of the outside, as small protocols.

The service knows no JSON-RPC and no sockets: a `Ticket` is somebody waiting for
an answer, and a `Listener` is a connection that takes bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
from msgspec import Raw, UnsetType

from sessiond.errors import SessiondError
from sessiond.model.events import Figures
from sessiond.model.requests import Reply

__all__ = [
    "Consulted",
    "Listener",
    "NoSummary",
    "Partner",
    "Progress",
    "Summarizer",
    "Ticket",
]


class Listener(Protocol):
    """A connection, as far as subscriptions go. Nothing here waits but `wait_room`."""

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Frames a body; one function per framing, so it also says which frames can be shared."""
        ...

    def offer(self, frames: bytes) -> bool:
        """Queue framed events; False when the outbox is full."""
        ...

    def put(self, frame: bytes) -> None:
        """Queue one frame that must not be dropped."""
        ...

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        ...

    async def wait_room(self) -> None:
        """Until events are welcome again."""
        ...

    @property
    def replay_turn(self) -> anyio.Lock:
        """Held by the one replay that reads lines for this connection."""
        ...

    def close(self) -> None:
        """Read no more, answer what was asked, then close."""
        ...

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in a task that ends with the connection."""
        ...


class Partner(Listener, Protocol):
    """A connection that can also be asked something."""

    def request(
        self, method: str, params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Queue a question to the client, whose reply goes to `settle`, once.

        What it gives withdraws the question, if there is no reply yet.
        """
        ...


class Consulted(Protocol):
    """A client, as far as it does something for the daemon."""

    @property
    def client_id(self) -> str | None:
        """What it calls itself."""
        ...

    @property
    def name(self) -> str | None:
        """Which program it is."""
        ...

    @property
    def summarizes(self) -> bool:
        """Whether it offered to write summaries."""
        ...

    @property
    def listener(self) -> Partner:
        """Its connection."""
        ...

    def watches(self, session_id: str) -> bool:
        """Whether it has subscribed to a session."""
        ...


class Progress(Protocol):
    """Where work says how far it is, for whoever waits for it and asked to be told."""

    @property
    def token(self) -> str | int | None:
        """What the asker calls its request by; None when it did not ask."""
        ...

    @property
    def latest(self) -> Figures | None:
        """What was reported last."""
        ...

    def report(self, done: int, total: int | None, unit: str) -> None:
        """So much is done, of so much (None: not known). From any thread, for every item."""
        ...


class Ticket(Protocol):
    """Somebody who waits for an answer. Settled once, by `answer` or `fail`."""

    @property
    def client(self) -> Any:
        """The `Client` that asked."""
        ...

    @property
    def told_id(self) -> Raw | UnsetType:
        """The id of the request for others to see, as it was sent."""
        ...

    @property
    def progress(self) -> Progress:
        """Where to report how far the work on it is; never None."""
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
        """Say that the answer comes later and how to give it up."""
        ...


class NoSummary(Exception):
    """A summary was asked for in vain; the text says why, in a few words."""


class Summarizer(Protocol):
    """Something outside that writes summaries when no client does."""

    @property
    def is_there(self) -> bool:
        """Whether one is configured."""
        ...

    async def summarize(self, prompt: str) -> str:
        """What it says, as it is. Raises NoSummary."""
        ...
