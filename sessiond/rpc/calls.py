"""One request on its way to its answer, and where that answer goes.

Rule 1: a call is settled once, by `answer` or by `fail`.
Rule 2: settling only queues; nothing is sent before somebody flushes.
Rule 3: a notification's call is settled like any other, but says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from sessiond.errors import Overloaded, SessiondError, TooLarge
from sessiond.limits import (
    ORIGIN_ID_BYTES_MAX,
    RESULT_BYTES_MAX,
    RETRY_AFTER_MS,
    SMALL_ANSWER_BYTES,
)
from sessiond.rpc.messages import error_body, result_body
from sessiond.rpc.progress import NO_PROGRESS

__all__ = ["BatchAnswer", "Call", "CallTable", "Peer"]

C = TypeVar("C")
Put = Callable[[bytes], None]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_NULL: Final = b"null"


class Peer(Protocol):
    """The other end, as far as answers go. Framing is its own business."""

    def put(self, body: bytes) -> None:
        """Queue one answer."""
        ...

    def flush(self) -> None:
        """Send what is queued, as far as the other end takes it."""
        ...

    def admits(self, size: int) -> bool:
        """Whether so large an answer to a question may be queued."""
        ...


class CallTable(Generic[C]):
    """The calls of one connection whose answer comes later."""

    def __init__(
        self,
        client: C,
        peer: Peer,
        incident: Callable[[str, Exception], SessiondError],
        is_question: Callable[[str], bool],
    ) -> None:
        self.client = client
        self.flush = peer.flush
        self.admits = peer.admits
        self.incident = incident
        self.is_question = is_question
        self.body_bytes = 0
        """Of the requests that wait for their answer."""
        # Public because the read loop looks at its size after every request.
        self.held: dict[Call[C], Callable[[], None] | None] = {}

    def __len__(self) -> int:
        return len(self.held)

    def hold(self, call: Call[C], on_cancel: Callable[[], None] | None) -> None:
        """Count a call as in flight; held again, it is cancelled otherwise from now on."""
        if call not in self.held:
            self.body_bytes += call.size
        self.held[call] = on_cancel

    def drop(self, call: Call[C]) -> None:
        """A call was settled."""
        del self.held[call]
        self.body_bytes -= call.size

    def cancel(self, wanted: bytes | Raw) -> None:
        """Cancel the calls of this id: the same JSON value, so 1 is 1.0 but never "1"."""
        for call, on_cancel in list(self.held.items()):
            if on_cancel is not None and _is_value(call.id, wanted):
                on_cancel()

    def cancel_all(self) -> None:
        """Cancel whatever can still be cancelled."""
        for on_cancel in list(self.held.values()):
            if on_cancel is not None:
                on_cancel()


def _is_value(text: bytes | None, wanted: bytes | Raw) -> bool:
    """Return whether two ids are the same JSON value, numbers of any size included."""
    if text is None:
        return False
    return text == bytes(wanted) or _value(text) == _value(bytes(wanted))


def _value(text: bytes) -> object:
    """Return what an id says; for one that nothing can hold its text, which is equal to no value."""
    try:
        # Exact: a float would take neighbours for the same number.
        return Decimal(text.decode()) if text[:1] in b"-0123456789" else _decode(text)
    except (DecodeError, InvalidOperation):
        return text


class Call(Generic[C]):
    """A request, or a notification, that a handler is working on."""

    __slots__ = ("_held", "_put", "_table", "client", "id", "method", "progress", "settled", "size")

    def __init__(
        self, table: CallTable[C], method: str, id_text: bytes | None, put: Put, size: int
    ) -> None:
        self._table = table
        self._put = put
        self._held = False
        # The id's JSON text as it was sent; None for a notification.
        self.id = id_text
        self.client = table.client
        self.method = method
        self.settled = False
        # Of the request, in bytes.
        self.size = size
        # Who wants to be told gets one of its own, before the handler runs.
        self.progress = NO_PROGRESS

    @property
    def told_id(self) -> Raw | UnsetType:
        """The id for others to see, as it was sent; UNSET if there is none worth telling."""
        text = self.id
        if text is None or text == _NULL or len(text) > ORIGIN_ID_BYTES_MAX:
            return UNSET
        return Raw(text)

    @property
    def is_notification(self) -> bool:
        """Whether nobody waits for an answer."""
        return self.id is None

    def answer(self, result: Any) -> None:
        """Queue the answer: a Struct or Raw to encode, or bytes that are JSON already."""
        try:
            text = result if type(result) is bytes else _encode(result)
        except Exception as error:  # noqa: BLE001  # a result that cannot be encoded is our bug
            self.fail(self._table.incident(self.method, error))
            return
        if len(text) > SMALL_ANSWER_BYTES and (refusal := self._refusal(len(text))) is not None:
            self.fail(refusal)
            return
        self._settle()
        if self.id is not None:
            self._put(result_body(self.id, text))

    def _refusal(self, size: int) -> SessiondError | None:
        """Why a large answer cannot be given now, or at all."""
        if size > RESULT_BYTES_MAX:
            limit = RESULT_BYTES_MAX
            return TooLarge(f"an answer may have {limit} bytes", limit=limit)
        # What was changed was changed, so only who asks can be told to ask again.
        if self._table.is_question(self.method) and not self._table.admits(size):
            return _crowded()
        return None

    def fail(self, error: SessiondError) -> None:
        """Queue an error; a large one that finds no room is told as overloaded."""
        self._settle()
        if self.id is None:
            return
        body = error_body(self.id, error)
        # Only one that carries a plan is so large, and then nothing was changed.
        if len(body) > SMALL_ANSWER_BYTES and not self._table.admits(len(body)):
            body = error_body(self.id, _crowded())
        self._put(body)

    def flush(self) -> None:
        """Send what is queued for the connection that asked."""
        self._table.flush()

    def defer(self, on_cancel: Callable[[], None] | None) -> None:
        """Say that the answer comes later; `on_cancel` gives it up, or does nothing if too late."""
        assert not self.settled, "a call is deferred before it is answered"
        self._held = True
        self._table.hold(self, on_cancel)

    def hold(self) -> None:
        """The handler said DEFERRED: in flight from now on, if it is not settled already."""
        if not (self.settled or self._held):
            self.defer(None)

    def _settle(self) -> None:
        assert not self.settled, "a call is settled once"
        self.settled = True
        if self._held:
            self._table.drop(self)


def _crowded() -> Overloaded:
    return Overloaded(
        "too many bytes of answers wait to be read; read them, then ask again",
        limit=RESULT_BYTES_MAX,
        retry_after_ms=RETRY_AFTER_MS,
    )


class BatchAnswer:
    """The answers of one batch: one array in the order of the members, when all are there."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._bodies: list[bytes] = []
        self._missing = 0
        self._bytes = 0
        self._complete = False

    def slot(self, id_text: bytes | None) -> Put:
        """A place for the answer of the next member."""
        self._bodies.append(b"")
        self._missing += 1
        return partial(self._fill, len(self._bodies) - 1, id_text)

    def complete(self) -> None:
        """Every member has been handled; some may still wait for their answers."""
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
