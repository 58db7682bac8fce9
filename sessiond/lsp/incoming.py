"""Input of the server: long texts are cut out of messages before pygls parses them.

Law: all this runs in the thread in which pygls reads. pygls parses a message on the event loop in
one step, which with a text of 50 MB takes longer than a step may. So a long text is decoded here, in
pieces between which other threads run, and a short key stands for the text in the message.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.lsp.text.text import Splitter, split

# pygls parses a message below this size in a few milliseconds.
_LONG_BYTES: Final = 256 * 1024
_GROWTH: Final = 8
_CHARACTER_BYTES_MAX: Final = 4
_HOLDERS: Final = frozenset({"textDocument/didOpen", "textDocument/didChange"})

_decoder = json.JSONDecoder()


class _Envelope(Struct):
    method: str


class Sizes(Struct, frozen=True):
    """Sizes of the pieces in which strings are decoded."""

    kept_bytes: int = 16 * 1024
    """Size up to which a text stays in its message."""
    first_bytes: int = 256
    """Size of a string's first piece; most strings of a message are short."""
    piece_bytes: int = 256 * 1024


_SIZES: Final = Sizes()


class CutMessage(NamedTuple):
    """A message with keys for its long texts, and the lines of those texts by key."""

    body: bytes
    texts: Mapping[str, Sequence[str]]


class Incoming:
    """The editor's stream as pygls reads it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._prefix = f"text-{secrets.token_hex(16)}-"
        self._texts: Mapping[str, Sequence[str]] = {}

    def readline(self) -> bytes:
        """Return a line of a message's head; empty at the end of the stream."""
        return self._stream.readline()

    def read(self, size: int) -> bytes:
        """Return a message's body, with keys for its long texts."""
        self._texts = {}
        body = self._stream.read(size)
        if len(body) < _LONG_BYTES:
            return body
        try:
            cut = cut_texts(body, self._prefix)
            if typed.decode(cut.body, _Envelope).method not in _HOLDERS:
                return body
        except (ValueError, msgspec.MsgspecError):
            # A broken message; pygls refuses it.
            return body
        self._texts = cut.texts
        return cut.body

    def lines(self, text: str) -> Sequence[str]:
        """Return the lines of a text of the last message, which may be a key."""
        found = self._texts.get(text)
        return split(text) if found is None else found


def cut_texts(body: bytes, prefix: str, sizes: Sizes = _SIZES) -> CutMessage:
    """Return a JSON message without its long strings. Raises ValueError if a string is broken.

    `prefix`: the beginning of each key, which no text of the message begins with.
    """
    texts: dict[str, Sequence[str]] = {}
    parts: list[bytes] = []
    kept_from = at = 0
    while (quote := body.find(b'"', at)) >= 0:
        at, lines = _string(body, quote + 1, sizes)
        if lines is not None:
            key = f"{prefix}{len(texts)}"
            texts[key] = lines
            parts += [body[kept_from:quote], b'"%b"' % key.encode()]
            kept_from = at
    return CutMessage(b"".join([*parts, body[kept_from:]]), texts)


def _string(body: bytes, start: int, sizes: Sizes) -> tuple[int, list[str] | None]:
    """Return where a string ends, behind its quotation mark, and the lines of a long one."""
    close = body.find(b'"', start, start + sizes.kept_bytes)
    if close >= 0 and body.find(b"\\", start, close) < 0:
        return close + 1, None
    splitter, end = Splitter(), start
    for piece, behind in _pieces(body, start, sizes):
        splitter.feed(piece)
        end = behind
    return end, splitter.end() if end - start > sizes.kept_bytes else None


def _pieces(body: bytes, at: int, sizes: Sizes) -> Iterator[tuple[str, int]]:
    """Yield a string's pieces, each with the place in the body behind the piece."""
    size = sizes.first_bytes
    while True:
        end = _piece_end(body, at, size)
        raw = body[at:end].decode("utf-8", "surrogatepass")
        piece, used = _decoder.raw_decode(f'"{raw}"')
        if used < len(raw) + 2:
            yield piece, at + len(raw[: used - 1].encode("utf-8", "surrogatepass"))
            return
        if end == len(body):
            raise ValueError("a string without an end")
        yield piece, end
        at, size = end, min(size * _GROWTH, sizes.piece_bytes)


def _piece_end(body: bytes, at: int, size: int) -> int:
    """Return the end of a piece that ends within no character and within no escape."""
    end = at + size
    if end >= len(body):
        return len(body)
    # A longer run of bytes that continue a character is no UTF-8, and the decoder says so.
    for _ in range(_CHARACTER_BYTES_MAX - 1):
        end -= body[end] & 0xC0 == 0x80
    last = first = body.rfind(b"\\", max(at, end - 6), end)
    while first > at and body[first - 1] == ord("\\"):
        first -= 1
    if last < 0 or (last - first) % 2:
        return end
    is_within = last + (6 if body[last + 1 : last + 2] == b"u" else 2) > end
    return last if is_within else end
