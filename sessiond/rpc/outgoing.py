"""Requests of the daemon to one client, from the question to its settlement.

Rule 1: ids are small positive integers, counted up; none is used twice on a connection. An answer
matches by the number of its id, however the number is spelled.

Rule 2: a request is settled once: by its answer, or because no answer can come any more. An answer
under an id without a pending request is late, and dropped.

Rule 3: nothing here waits. The asker decides how long to wait, and withdraws the request; the
client then gets `$/cancelRequest`, which a client may send us too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from msgspec import DecodeError, UnsetType

from sessiond import typed
from sessiond.limits import OUTGOING_MAX
from sessiond.model.requests import Reply, Trouble
from sessiond.rpc.calls import Peer
from sessiond.rpc.messages import Response, notification_body, request_body

Settle = Callable[[Reply], None]
_decode: Final[Callable[[bytes], Any]] = typed.decoder(Any).decode


class Outgoing:
    """The pending requests to one client."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._numbers = count(1)
        self._waiting: dict[int, Settle] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, method: str, params: bytes, settle: Settle) -> Callable[[], None]:
        """Queue a request; return the function that withdraws it.

        `settle` is called exactly once, unless the request is withdrawn first.
        """
        if self._closed:
            settle(Reply(None, "gone"))
            return _nothing
        if len(self._waiting) >= OUTGOING_MAX or not self._peer.admits(len(params)):
            settle(Reply(None, "busy"))
            return _nothing
        number = next(self._numbers)
        id_text = b"%d" % number
        self._waiting[number] = settle
        self._peer.put(request_body(id_text, method, params))

        def withdraw() -> None:
            if self._waiting.pop(number, None) is not None:
                self._peer.put(notification_body("$/cancelRequest", b'{"id":' + id_text + b"}"))

        return withdraw

    def receive(self, answer: Response) -> None:
        """Settle the pending request that the client's message answers, if there is one."""
        if isinstance(answer.result, UnsetType):
            self.fail(answer.id, "refused")
        elif (settle := self._taken(answer.id)) is not None:
            settle(Reply(answer.result))

    def fail(self, id_text: bytes | None, trouble: Trouble) -> bool:
        """Settle the request of this id as failed; return False if there is no such request."""
        settle = None if id_text is None else self._taken(id_text)
        if settle is not None:
            settle(Reply(None, trouble))
        return settle is not None

    def lose(self) -> None:
        """Fail all pending requests: a skipped frame may have been the answer to any of them."""
        self._fail_all("too_large")

    def close(self) -> None:
        """Fail all pending and later requests: no answer can come from this client any more."""
        self._closed = True
        self._fail_all("gone")

    def _taken(self, id_text: bytes) -> Settle | None:
        """Remove and return the settle function of a pending request; None for an unknown id."""
        try:
            return self._waiting.pop(_decode(id_text), None)
        except DecodeError:
            # A number too large for the decoder is no id of the daemon.
            return None

    def _fail_all(self, trouble: Trouble) -> None:
        waiting, self._waiting = self._waiting, {}
        for settle in waiting.values():
            settle(Reply(None, trouble))


def _nothing() -> None:
    """Do nothing: the request is settled already."""
