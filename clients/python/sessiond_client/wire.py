"""Bytes to messages and back: JSON-RPC 2.0, one message a line. No I/O, no state of calls.

    > {"jsonrpc":"2.0","id":1,"method":"server/ping","params":{}}
    < {"jsonrpc":"2.0","id":1,"result":{}}

Lines end at 0x0A only: text-mode splitting would also cut at U+2028, which JSON
strings may contain. Payloads stay `Raw`: their bytes are not looked at here, but for halves of
surrogate pairs, which msgspec does not take.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from threading import RLock
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond_client.errors import ProtocolViolation, RpcError
from sessiond_client.limits import LINE_BYTES_MAX, SEND_FRAMES_MAX

__all__ = [
    "READ_ANY",
    "READ_OBJECT",
    "ErrorBody",
    "Incoming",
    "LineBuffer",
    "Outgoing",
    "Reader",
    "answer",
    "convert",
    "decode",
    "notification",
    "read",
    "refusal",
    "request",
    "rpc_error",
]

T = TypeVar("T")
Reader = Callable[[Raw], T]

_METHOD_NOT_FOUND: Final = -32601
_NO_ANSWER: Final = -32000


class ErrorBody(Struct, frozen=True):
    """The `error` member of an answer."""

    code: int
    message: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Incoming(Struct, frozen=True):
    """Any line of the daemon: an answer, a notification, or a request to us."""

    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET


# How the daemon spells an answer to an id of ours.
_ANSWER: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(?P<id>\d+),"result":(?P<result>.*)\}\s*', re.DOTALL
)
# Half of a surrogate pair, behind an even number of backslashes. It stands in files of programs
# that cut a text inside an emoji, comes as it is stored, and is no character: read as U+FFFD.
_HALVES: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u[dD]"
    rb"(?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_DECODER: Final = msgspec.json.Decoder(Incoming)  # noqa: TID251 - an import is one thread's
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}  # noqa: TID251
_MAKING: Final = RLock()
_ENCODER: Final = msgspec.json.Encoder()


class LineBuffer:
    """Collects chunks into lines; a chunk is looked at once however long its line gets."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._part_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the lines that `data` completes, without their newline; blank ones are skipped."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            line = b"".join([*self._parts, piece]) if self._parts else piece
            self._parts.clear()
            self._part_bytes = 0
            if line.strip():
                yield line
        if rest:
            self._parts.append(rest)
            self._part_bytes += len(rest)
            if self._part_bytes > LINE_BYTES_MAX:
                raise ProtocolViolation(f"a line of more than {LINE_BYTES_MAX} bytes")


class Outgoing:
    """The frames of one connection that the kernel has not taken yet.

    Law: a request counts as sent from its first byte. Only a request of which no byte left may be
    sent again without asking what it does.
    """

    def __init__(self) -> None:
        self._frames: deque[tuple[memoryview, Callable[[], None] | None]] = deque()
        self._is_begun = False

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes, sent: Callable[[], None] | None = None) -> None:
        """Queue a frame behind the queued ones; `sent` is called when its first byte leaves."""
        self._frames.append((memoryview(frame), sent))

    def buffers(self) -> list[memoryview]:
        """Return the bytes to hand to the kernel next, oldest first."""
        return [frame for frame, _ in islice(self._frames, SEND_FRAMES_MAX)]

    def taken(self, count: int) -> None:
        """Forget `count` bytes that the kernel took."""
        while count:
            frame, sent = self._frames.popleft()
            if not self._is_begun and sent is not None:
                sent()
            self._is_begun = count < len(frame)
            if self._is_begun:
                self._frames.appendleft((frame[count:], sent))
                return
            count -= len(frame)

    def discard(self, sent: Callable[[], None]) -> None:
        """Take back the frame of a call of which no byte was sent."""
        self._frames = deque(item for item in self._frames if item[1] != sent)

    def clear(self) -> None:
        """Forget everything: the connection that it was for is gone."""
        self._frames.clear()
        self._is_begun = False


def decode(line: bytes) -> Incoming:
    """One line of the daemon; what is no JSON-RPC raises `ProtocolViolation`."""
    try:
        if not line.isascii():
            # The decoder skips what stays `Raw`, and whoever reads it later is told something else.
            line.decode()
        return _DECODER.decode(line)
    except RecursionError:
        # A tree of hundreds of levels. It concerns the one who asked, not the connection:
        # reading the result raises the same, and who means it raises the recursion limit.
        answer = _ANSWER.fullmatch(line)
        if answer is None:
            raise ProtocolViolation("a message is nested too deeply to be read") from None
        return Incoming(id=int(answer["id"]), result=Raw(answer["result"]))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        mended = _HALVES.sub(rb"\1\\ufffd", line)
        if mended != line:
            return decode(mended)
        raise ProtocolViolation(f"not a JSON-RPC message: {error}") from error


def read(kind: type[T], raw: Raw) -> T:
    """Return params or a result as `kind`."""
    try:
        found: T = _decoder(kind).decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolViolation(f"not a {kind.__name__}: {error}") from error
    return found


def convert(kind: type[T], value: object) -> T:
    """Return a decoded value as `kind`. Raises msgspec.ValidationError."""
    _decoder(kind)
    return msgspec.convert(value, kind)  # noqa: TID251 - its first use is made


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: TID251
    """Return the decoder of a type, made at the first use: most programs read a few of the types.

    One thread at a time makes one: msgspec (0.22) shows a type that it has read half to other threads, and two first
    uses at the same moment end the process with SIGSEGV.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _MAKING:
            decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)  # noqa: TID251
    return decoder


READ_ANY: Final[Reader[Any]] = partial(read, object)
READ_OBJECT: Final[Reader[dict[str, Any]]] = partial(read, dict[str, Any])


def request(call_id: int, method: str, params: Mapping[str, object]) -> bytes:
    """Return the frame of one request."""
    return _frame({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def notification(method: str, params: Mapping[str, object]) -> bytes:
    """Return the frame of a message that wants no answer."""
    return _frame({"jsonrpc": "2.0", "method": method, "params": params})


def answer(request_id: int, result: Mapping[str, object]) -> bytes:
    """Our answer to a request of the daemon."""
    return _frame({"jsonrpc": "2.0", "id": request_id, "result": result})


def refusal(request_id: int | str | None, reason: str | None = None) -> bytes:
    """Our error to a request of the daemon; without a reason, because it was never offered."""
    error = {"code": _NO_ANSWER, "message": reason}
    if reason is None:
        error = {"code": _METHOD_NOT_FOUND, "message": "this client does not serve this method"}
    return _frame({"jsonrpc": "2.0", "id": request_id, "error": error})


def rpc_error(body: ErrorBody) -> RpcError:
    """Return the exception for an `error` member."""
    return RpcError(body.code, body.message, body.data)


def _frame(message: Mapping[str, object]) -> bytes:
    body = _ENCODER.encode(message)
    if b"\n" in body:
        # Only a `Raw` payload of the caller brings one, and only between tokens:
        # inside a JSON string a newline is always escaped.
        body = body.replace(b"\n", b" ")
    return body + b"\n"
