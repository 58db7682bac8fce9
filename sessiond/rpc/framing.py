"""Framing of a connection: bytes in, bodies out. The framing is detected once, by the first bytes.

Law: answers use the framing of the requests. Only JSON or a `Content-` header is ever answered; any
other protocol (HTTP, TLS) gets no byte.

    {"id":1,"method":"server/ping"}\\n                              newline-delimited
    Content-Length: 31\\r\\n\\r\\n{"id":1,"method":"server/ping"}   as in the LSP base protocol
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from sessiond.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from sessiond.rpc.readers import BLANK, FrameReader, Item, LineReader

_NEWLINE: Final = 0x0A
_HEADER_START: Final = b"content-"


def frame_ndjson(body: bytes) -> bytes:
    """Return the body as one line.

    A newline can only stand between tokens of a payload, where a space is equivalent.
    """
    if _NEWLINE in body:
        body = body.replace(b"\n", b" ")
    return body + b"\n"


def frame_all(frame: Callable[[bytes], bytes], bodies: Sequence[bytes]) -> bytes:
    """Return several bodies, each of them framed by `frame`, in one piece."""
    # A newline among all bodies is found faster than the newlines of their frames are counted.
    if frame is frame_ndjson and _NEWLINE not in b"".join(bodies):
        return b"\n".join(bodies) + b"\n"
    return b"".join(map(frame, bodies))


def frame_content_length(body: bytes) -> bytes:
    """Return a header and the body."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Framing(Enum):
    """The two framings of a connection; answers use the framing of the requests."""

    NDJSON = "ndjson"
    CONTENT_LENGTH = "content-length"

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Function that frames a body; one object for all connections of this framing."""
        return frame_ndjson if self is Framing.NDJSON else frame_content_length


class Framer:
    """The receiving end of one connection.

    `frame` frames an answer as the requests are framed. `closing` is None until the connection must
    be closed without a further answer; it then holds the reason.
    """

    def __init__(
        self, *, frame_bytes_max: int = FRAME_BYTES_MAX, header_bytes_max: int = HEADER_BYTES_MAX
    ) -> None:
        self.framing: Framing | None = None
        self.frame: Callable[[bytes], bytes] = frame_ndjson
        self.closing: str | None = None
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self._reader: LineReader | FrameReader | None = None
        self._start = b""

    def feed(self, data: bytes) -> list[Item]:
        """Return the items that `data` completes, in order: bodies, and errors for a null id."""
        items: list[Item] = []
        if self.closing is not None:
            return items
        if self._reader is None:
            data = self._detect(data)
        if self._reader is not None and data:
            self._reader.feed(data, items)
            self.closing = self._reader.closing
        return items

    @property
    def held_bytes(self) -> int:
        """Number of bytes kept of a message whose end has not arrived."""
        return 0 if self._reader is None else self._reader.held_bytes

    def skip(self) -> None:
        """Drop the incomplete message and the rest of it that is still to come.

        The next message is read as usual.
        """
        assert self._reader is not None, "nothing is kept yet"
        self._reader.skip()

    def end(self) -> list[Item]:
        """Return the items that the end of input completes: the last line may lack its newline."""
        items: list[Item] = []
        if self._reader is not None and self.closing is None:
            self._reader.end(items)
        return items

    def _detect(self, data: bytes) -> bytes:
        """Detect the framing from the first bytes; return the bytes for the chosen reader."""
        # The bytes are kept until they differ from "Content-", as those of an HTTP verb do.
        data = (self._start + data).lstrip(BLANK)
        start = data[: len(_HEADER_START)].lower()
        if data[:1] in (b"{", b"["):
            self.framing = Framing.NDJSON
            self._reader = LineReader(self._frame_bytes_max)
        elif start == _HEADER_START:
            self.framing = Framing.CONTENT_LENGTH
            self._reader = FrameReader(self._frame_bytes_max, self._header_bytes_max)
        elif not _HEADER_START.startswith(start):
            self.closing = "the first bytes are neither JSON nor a Content-Length header"
        if self.framing is not None:
            self.frame = self.framing.encode
        self._start = data if self._reader is None and self.closing is None else b""
        return data
