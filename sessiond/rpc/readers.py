"""Readers that find the end of each message in a stream of chunks, one reader per framing.

Rule 1: work is linear in the bytes received, however they are cut: an incomplete message grows in
place and is scanned once.

Rule 2: memory is bounded: a body over the limit is skipped, not stored. A frame that the process
has no memory for is skipped too, and refused as Overloaded.

Rule 3: a body that is handed on is UTF-8 (JSON in another encoding is not JSON).
"""

from __future__ import annotations

from typing import Final

from sessiond.errors import InvalidRequest, Overloaded, ParseFailed, SessiondError, TooLarge
from sessiond.limits import NESTING_MAX, RETRY_AFTER_MS
from sessiond.model.nesting import SHALLOW_BYTES, nests_too_deeply

BLANK: Final = b" \t\r\n"
_CARRIAGE_RETURN: Final = 0x0D
_OPEN_BRACE: Final = 0x7B
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# More digits than any length has; int() is slow on thousands of digits.
_LENGTH_DIGITS_MAX: Final = 18
_OTHER_FRAMING: Final = (
    "JSON stands where a Content-Length header was expected; a connection keeps the framing that its"
    " first byte chose, so the connection is closed: frame every message, or open a new connection"
)
# First bytes of JSON, with which no header name begins.
_JSON_STARTS: Final = (b"{", b"[")

Item = bytes | SessiondError
"""A complete body, or an error to answer with id null."""


def _checked(body: bytes, bytes_max: int) -> Item:
    """Return the body, or the error that says why it is refused."""
    if len(body) > bytes_max:
        return _too_large(bytes_max)
    if len(body) > SHALLOW_BYTES and nests_too_deeply(body):
        return ParseFailed(f"the frame is nested more than {NESTING_MAX} levels deep")
    if body.isascii():
        return body
    if body.startswith(_BYTE_ORDER_MARK):
        return ParseFailed("the frame starts with a byte order mark")
    try:
        body.decode()
    except UnicodeDecodeError:
        return ParseFailed("the frame is not UTF-8")
    return body


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"a frame may have {bytes_max} bytes", limit=bytes_max)


def _no_memory() -> Overloaded:
    return Overloaded("there is not enough memory for a frame", retry_after_ms=RETRY_AFTER_MS)


class LineReader:
    """Reader of newline-delimited JSON: splits on byte 0x0A only, skips blank lines."""

    closing: str | None = None

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # The line whose end has not arrived yet.
        self._partial = bytearray()
        self._skipping = False

    @property
    def held_bytes(self) -> int:
        """Number of bytes kept of a line whose end has not arrived."""
        return len(self._partial)

    def skip(self) -> None:
        """Drop the incomplete line and the rest of it that is still to come."""
        self._partial.clear()
        self._skipping = True

    def feed(self, data: bytes, items: list[Item]) -> None:
        """Append the items that `data` completes to `items`."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and (self._partial or self._skipping):
            self._finish_partial(lines.pop(0), items)
        bytes_max = self._bytes_max
        for line in lines:
            if (
                line
                and line[0] == _OPEN_BRACE
                and line[-1] != _CARRIAGE_RETURN
                and len(line) <= SHALLOW_BYTES
                and line.isascii()
                and len(line) <= bytes_max
            ):
                items.append(line)
            else:
                self._take(line, items)
        if rest:
            self._keep(rest, items)

    def end(self, items: list[Item]) -> None:
        """Append the item that the end of input completes: the last line may lack its newline."""
        if not self._skipping:
            self._finish_partial(b"", items)

    def _finish_partial(self, tail: bytes, items: list[Item]) -> None:
        if not self._skipping:
            self._keep(tail, items)
        try:
            if not self._skipping:
                self._take(bytes(self._partial), items)
        except MemoryError:
            items.append(_no_memory())
        self._partial.clear()
        self._skipping = False

    def _keep(self, rest: bytes, items: list[Item]) -> None:
        """Keep the beginning of a line, unless it is too long already."""
        if self._skipping:
            return
        # One byte more, because the last may prove to be the CR before the LF.
        try:
            if len(self._partial) + len(rest) <= self._bytes_max + 1:
                self._partial += rest
                return
            items.append(_too_large(self._bytes_max))
        except MemoryError:
            items.append(_no_memory())
        self.skip()

    def _take(self, line: bytes, items: list[Item]) -> None:
        if line and line[-1] == _CARRIAGE_RETURN:
            line = line[:-1]
        if line.strip(BLANK):
            items.append(_checked(line, self._bytes_max))


class FrameReader:
    """Reader of Content-Length framing: header lines, a blank line, a body of the given length."""

    def __init__(self, bytes_max: int, header_bytes_max: int) -> None:
        self.closing: str | None = None
        self._bytes_max = bytes_max
        self._header_bytes_max = header_bytes_max
        # The header line or body whose end has not arrived yet.
        self._partial = bytearray()
        self._header_bytes = 0
        self._fields = 0
        self._length: int | None = None
        self._in_body = False
        self._left = 0
        self._skipping = False

    @property
    def held_bytes(self) -> int:
        """Number of bytes kept of a header line or body whose end has not arrived."""
        return len(self._partial)

    def skip(self) -> None:
        """Drop the incomplete body and the rest of it that is still to come.

        Header lines are short and need no skipping.
        """
        assert self._in_body, "only large frames are skipped"
        self._partial.clear()
        self._skipping = True

    def feed(self, data: bytes, items: list[Item]) -> None:
        """Append the items that `data` completes; `closing` tells why nothing more can be read."""
        at = 0
        while at < len(data) and self.closing is None:
            if self._in_body:
                at = self._read_body(data, at, items)
            else:
                at = self._read_header(data, at, items)

    def end(self, items: list[Item]) -> None:
        """Ignore an incomplete frame at the end of input."""

    def _read_header(self, data: bytes, at: int, items: list[Item]) -> int:
        newline = data.find(b"\n", at)
        stop = len(data) if newline < 0 else newline + 1
        self._header_bytes += stop - at
        if not self._partial and data[at : at + 1] in _JSON_STARTS:
            items.append(InvalidRequest(_OTHER_FRAMING))
            self.closing = _OTHER_FRAMING
            return len(data)
        if self._header_bytes > self._header_bytes_max:
            self.closing = "the header of a frame is too long"
            return stop
        self._partial += data[at:stop]
        if newline >= 0:
            line = bytes(self._partial).rstrip(b"\r\n")
            self._partial.clear()
            if line:
                self._take_header(line)
            else:
                self._end_header(items)
        return stop

    def _take_header(self, line: bytes) -> None:
        self._fields += 1
        name, colon, value = line.partition(b":")
        if not colon:
            self.closing = "a header line without a colon"
        elif name.strip().lower() == b"content-length":
            value = value.strip()
            if not value.isdigit() or len(value) > _LENGTH_DIGITS_MAX:
                self.closing = "a Content-Length that is no length"
            elif self._length is not None:
                self.closing = "Content-Length twice in one header"
            else:
                self._length = int(value)

    def _end_header(self, items: list[Item]) -> None:
        length, fields = self._length, self._fields
        self._length = None
        self._header_bytes = self._fields = 0
        if length is None:
            # A stray blank line between two frames is no header yet.
            if fields:
                self.closing = "a header without Content-Length"
            return
        self._left = length
        self._in_body = length > 0
        self._skipping = length > self._bytes_max
        if self._skipping:
            items.append(_too_large(self._bytes_max))
        elif length == 0:
            items.append(b"")

    def _read_body(self, data: bytes, at: int, items: list[Item]) -> int:
        stop = min(at + self._left, len(data))
        self._left -= stop - at
        try:
            if not self._skipping:
                self._partial += data[at:stop]
            if self._left == 0 and not self._skipping:
                items.append(_checked(bytes(self._partial), self._bytes_max))
        except MemoryError:
            items.append(_no_memory())
            self.skip()
        if self._left == 0:
            self._partial.clear()
            self._in_body = False
        return stop
