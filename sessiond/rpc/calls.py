"""Calls: requests on the way to their answers, and the destination of each answer.

Rule 1: a call is settled once, by `answer` or by `fail`.

Rule 2: settling only queues; nothing is sent before a flush.

Rule 3: a notification's call is settled like any other, but puts no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from sessiond import typed
from sessiond.errors import Overloaded, SessiondError, TooLarge
from sessiond.limits import (
    ORIGIN_ID_BYTES_MAX,
    RESULT_BYTES_MAX,
    RETRY_AFTER_MS,
    SMALL_ANSWER_BYTES,
)
from sessiond.rpc.messages import error_body, result_body, with_meta
from sessiond.rpc.progress import NO_PROGRESS

C = TypeVar("C")
Put = Callable[[bytes], None]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = typed.decoder(Any).decode
_NULL: Final = b"null"


class Peer(Protocol):
    """The other end of a connection as a receiver of answers; framing is the peer's task."""

    def put(self, body: bytes) -> None:
        """Queue one answer."""
        ...

    def put_all(self, bodies: Sequence[bytes]) -> None:
        """Queue several answers in one piece."""
        ...

    def flush(self) -> None:
        """Send the queued frames, as far as the other end takes them."""
        ...

    def admits(self, size: int) -> bool:
        """Return whether an answer of `size` bytes to a question may be queued."""
        ...


class CallTable(Generic[C]):
    """The calls of one connection whose answers come later."""

    def __init__(
        self,
        client: C,
        peer: Peer,
        incident: Callable[[str, Exception], SessiondError],
        is_question: Callable[[str], bool],
    ) -> None:
        self.client = client
        self.put = peer.put
        self.put_all = peer.put_all
        self.flush = peer.flush
        self.admits = peer.admits
        self.incident = incident
        self.is_question = is_question
        self.body_bytes = 0
        """Number of bytes of the requests that wait for their answers."""
        # Public because the read loop looks at its size after every request.
        self.held: dict[Call[C], Callable[[], None] | None] = {}

    def __len__(self) -> int:
        return len(self.held)

    def answer_all(self, calls: Sequence[Call[C]], results: Sequence[bytes]) -> None:
        """Settle several calls with results that are JSON already, and queue the answers together.

        The answers keep the order of the calls.
        """
        held, put = self.held, self.put
        bodies: list[bytes] = []
        for call, result in zip(calls, results, strict=True):
            if call.put is not put or len(result) > SMALL_ANSWER_BYTES or call not in held:
                self._put_all(bodies)
                call.answer(result)
                continue
            assert not call.settled, "a call is settled once"
            call.settled = True
            del held[call]
            self.body_bytes -= call.size
            if call.id is not None:
                bodies.append(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call.id, result))
        if bodies:
            self.put_all(bodies)

    def _put_all(self, bodies: list[bytes]) -> None:
        if bodies:
            self.put_all(bodies)
            bodies.clear()

    def cancel(self, wanted: bytes | Raw) -> None:
        """Cancel the calls of this id.

        Ids are compared as JSON values, so 1 is 1.0 but never "1".
        """
        for call, on_cancel in list(self.held.items()):
            if on_cancel is not None and _is_value(call.id, wanted):
                on_cancel()

    def cancel_all(self) -> None:
        """Cancel every call that can still be cancelled."""
        for on_cancel in list(self.held.values()):
            if on_cancel is not None:
                on_cancel()


def _is_value(text: bytes | None, wanted: bytes | Raw) -> bool:
    """Return whether two ids are equal JSON values, numbers of any size included."""
    if text is None:
        return False
    return text == bytes(wanted) or _value(text) == _value(bytes(wanted))


def _value(text: bytes) -> object:
    """Return the JSON value of an id; its text if no type can hold the value.

    A text in bytes is equal to no value.
    """
    try:
        # Decimal is exact; as floats, two neighbouring integers could be equal.
        return Decimal(text.decode()) if text[:1] in b"-0123456789" else _decode(text)
    except (DecodeError, InvalidOperation):
        return text


class Call(Generic[C]):
    """A request, or a notification, in the hands of its handler."""

    __slots__ = (
        "_table",
        "client",
        "held",
        "id",
        "method",
        "progress",
        "put",
        "result_meta",
        "settled",
        "size",
    )

    def __init__(
        self, table: CallTable[C], method: str, id_text: bytes | None, put: Put, size: int
    ) -> None:
        self._table = table
        # Where the answer goes: to the connection, or into its place in the answer to a batch.
        self.put = put
        # Whether the call counts as in flight.
        self.held = False
        # JSON text of the id as it was sent; None for a notification.
        self.id = id_text
        self.client = table.client
        self.method = method
        self.settled = False
        # Size of the request in bytes.
        self.size = size
        # A request with a progress token gets a Progress of its own before the handler runs.
        self.progress = NO_PROGRESS
        # JSON of an object that an answer with an object has as `_meta`.
        self.result_meta: bytes | None = None

    @property
    def origin_id(self) -> Raw | UnsetType:
        """Id as other clients see it, as it was sent.

        UNSET if there is none, or if it is too long.
        """
        text = self.id
        if text is None or text == _NULL or len(text) > ORIGIN_ID_BYTES_MAX:
            return UNSET
        return Raw(text)

    @property
    def is_notification(self) -> bool:
        """Return whether the call is a notification, which gets no answer."""
        return self.id is None

    def answer(self, result: Any) -> None:
        """Queue the answer: a Struct or Raw to encode, or bytes that are JSON already."""
        try:
            text = result if type(result) is bytes else _encode(result)
        except Exception as error:  # noqa: BLE001  # a result that cannot be encoded is our bug
            self.fail(self._table.incident(self.method, error))
            return
        if self.result_meta is not None:
            text = with_meta(text, self.result_meta)
        if len(text) > SMALL_ANSWER_BYTES and (refusal := self._refusal(len(text))) is not None:
            self.fail(refusal)
            return
        self._settle()
        if self.id is not None:
            self.put(result_body(self.id, text))

    def _refusal(self, size: int) -> SessiondError | None:
        """Return the error to send in place of a large answer; None if the answer may be queued."""
        if size > RESULT_BYTES_MAX:
            limit = RESULT_BYTES_MAX
            return TooLarge(f"an answer may have {limit} bytes", limit=limit)
        # A change cannot be undone, so only a question may be refused and asked again.
        if self._table.is_question(self.method) and not self._table.admits(size):
            return _crowded()
        return None

    def fail(self, error: SessiondError) -> None:
        """Queue an error; a large error without room becomes Overloaded."""
        self._settle()
        if self.id is None:
            return
        body = error_body(self.id, error)
        # Only an error that carries a plan is so large, and then nothing was changed.
        if len(body) > SMALL_ANSWER_BYTES and not self._table.admits(len(body)):
            body = error_body(self.id, _crowded())
        self.put(body)

    def flush(self) -> None:
        """Send the queued frames of the call's connection."""
        self._table.flush()

    def defer(self, on_cancel: Callable[[], None] | None) -> None:
        """Count the call as in flight; `on_cancel` gives it up, or does nothing if too late.

        A call that is deferred again is given up in the new way from then on.
        """
        assert not self.settled, "a call is deferred before it is answered"
        table = self._table
        if not self.held:
            self.held = True
            table.body_bytes += self.size
        table.held[self] = on_cancel

    def hold(self) -> None:
        """Count the call as in flight after its handler returned DEFERRED, unless it is settled."""
        if not (self.held or self.settled):
            self.defer(None)

    def _settle(self) -> None:
        assert not self.settled, "a call is settled once"
        self.settled = True
        if self.held:
            table = self._table
            del table.held[self]
            table.body_bytes -= self.size


def _crowded() -> Overloaded:
    return Overloaded(
        "too many bytes of answers wait to be read; read them, then ask again",
        limit=RESULT_BYTES_MAX,
        retry_after_ms=RETRY_AFTER_MS,
    )


class BatchAnswer:
    """The answers of one batch: one array in the order of the members, put when all are there."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._bodies: list[bytes] = []
        self._missing = 0
        self._bytes = 0
        self._complete = False

    def slot(self, id_text: bytes | None) -> Put:
        """Return the function that puts the answer of the next member."""
        self._bodies.append(b"")
        self._missing += 1
        return partial(self._fill, len(self._bodies) - 1, id_text)

    def complete(self) -> None:
        """Record that every member was handled; some answers may still be missing."""
        self._complete = True
        self._put_when_done()

    def _fill(self, index: int, id_text: bytes | None, body: bytes) -> None:
        if self._bytes + len(body) > RESULT_BYTES_MAX:
            limit = RESULT_BYTES_MAX
            body = error_body(id_text, TooLarge(f"a batch may answer {limit} bytes", limit=limit))
        self._bytes += len(body)
        self._bodies[index] = body
        self._missing -= 1
        self._put_when_done()

    def _put_when_done(self) -> None:
        if self._complete and not self._missing and self._bodies:
            self._put(b"[" + b",".join(self._bodies) + b"]")
