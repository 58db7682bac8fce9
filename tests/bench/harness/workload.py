"""The workload: messages of set sizes, and the frames and lines made of them.

Law: equal arguments give equal bytes, so both sides and every commit get one and the same load.
Sizes are exact and spread evenly, so no burst is cheaper than another.

    {"role":"toolResult","toolCallId":"call_17","toolName":"read","content":[…],"isError":false}
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec
from msgspec import Struct

__all__ = [
    "MIXES",
    "SESSION_ID",
    "Frames",
    "append_frames",
    "messages",
    "native_header",
    "native_line",
    "pi_header",
    "pi_line",
]

SMALL, MEDIUM, LARGE = 300, 2 * 1024, 20 * 1024
MIXES: Final[tuple[str, ...]] = ("mix", "300 B", "2 KB", "20 KB")
_ALONE: Final = {"300 B": SMALL, "2 KB": MEDIUM, "20 KB": LARGE}
# Stands in the frames until a run puts its own session's id there; all ids have this length.
SESSION_ID: Final = "bench-0000000000"
_TIME: Final = "2026-01-15T10:30:00.000Z"
_TIME_MS: Final = 1_768_473_000_000
_WORDS: Final = (
    *("the", "session", "keeps", "every", "entry", "and", "a", "branch", "that", "models", "see"),
    *("def", "close", "self", "return", "await", "file", "line", "parse", "tree", "head", "test"),
)


def _pattern() -> tuple[int, ...]:
    """Return a hundred sizes: 75 small, 22 medium and 3 large ones, evenly spread."""
    sizes = [SMALL] * 100
    for place in (16, 50, 83):
        sizes[place] = LARGE
    free = [place for place in range(100) if sizes[place] == SMALL]
    for step in range(22):
        sizes[free[(2 * step + 1) * len(free) // 44]] = MEDIUM
    return tuple(sizes)


def _filler() -> bytes:
    """Prose with the escapes that real messages have, JSON-escaped, longer than any message."""
    random = Random(20260115)
    parts: list[str] = []
    size = 0
    while size < 2 * LARGE:
        part = random.choice(_WORDS) + random.choice(
            (" ", " ", " ", " ", ", ", "\\n", ' \\"', ". ")
        )
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


_PATTERN: Final = _pattern()
_FILLER: Final = _filler()


def _shell(index: int) -> tuple[bytes, bytes]:
    """Return the JSON around the text: by turns a user, an assistant, a tool result."""
    if index % 3 == 0:
        return b'{"role":"user","content":"', b'","timestamp":%d}' % (_TIME_MS + index)
    if index % 3 == 1:
        return (
            b'{"role":"assistant","content":[{"type":"text","text":"',
            b'"}],"provider":"anthropic","model":"claude-sonnet-4","stopReason":"stop",'
            b'"timestamp":%d}' % (_TIME_MS + index),
        )
    return (
        b'{"role":"toolResult","toolCallId":"call_%d","toolName":"read",'
        b'"content":[{"type":"text","text":"' % index,
        b'"}],"isError":false,"timestamp":%d}' % (_TIME_MS + index),
    )


def _message(index: int, size: int) -> bytes:
    before, after = _shell(index)
    length = max(size - len(before) - len(after), 1)
    start = (index * 37) % LARGE
    text = _FILLER[start : start + length]
    # A slice may begin behind a backslash or end with one.
    if _FILLER[start - 1 : start] == b"\\":
        text = b"." + text[1:]
    if text.endswith(b"\\"):
        text = text[:-1] + b"."
    return before + text + after


def messages(mix: str, count: int, *, size: int | None = None) -> list[bytes]:
    """`count` messages of a mix, or all of one `size`."""
    if size is None:
        size = _ALONE.get(mix)
    return [_message(index, size or _PATTERN[index % 100]) for index in range(count)]


class Frames(Struct, frozen=True):
    """Requests as one run of bytes, and where each ends: sending some is one slice."""

    view: memoryview
    ends: list[int]

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, first: int, last: int) -> memoryview:
        """Return the requests from `first` up to but without `last`."""
        return self.view[self.ends[first - 1] if first else 0 : self.ends[last - 1]]

    def dealt(self, hands: int) -> list[Frames]:
        """Return the requests in `hands` equal runs, without the remainder."""
        each = len(self) // hands
        found = []
        for hand in range(hands):
            first, last = hand * each, (hand + 1) * each
            start = self.ends[first - 1] if first else 0
            ends = [end - start for end in self.ends[first:last]]
            found.append(Frames(self.part(first, last), ends))
        return found

    def of_session(self, session_id: str) -> Frames:
        """Return the requests for another session."""
        assert len(session_id) == len(SESSION_ID)
        data = bytes(self.view).replace(SESSION_ID.encode(), session_id.encode())
        return Frames(memoryview(data), self.ends)


def append_frames(bodies: list[bytes], *, durability: str | None = None) -> Frames:
    """Return one append request per message, newline-delimited, with ids from 1."""
    option = b',"durability":"%s"' % durability.encode() if durability else b""
    frames = [
        b'{"jsonrpc":"2.0","id":%d,"method":"session/append","params":{"session_id":"%s"%s,'
        b'"message":%s}}\n' % (number, SESSION_ID.encode(), option, body)
        for number, body in enumerate(bodies, 1)
    ]
    ends: list[int] = []
    end = 0
    for frame in frames:
        end += len(frame)
        ends.append(end)
    return Frames(memoryview(b"".join(frames)), ends)


def native_header(session_id: str) -> bytes:
    """Line 1 of a native file."""
    return b'{"type":"session_header","version":1,"id":"%s","timestamp":"%s","cwd":"/bench"}\n' % (
        session_id.encode(),
        _TIME.encode(),
    )


def native_line(index: int, message: bytes) -> bytes:
    """Entry `index` of a native file that is one long chain."""
    parent = b'"%08x"' % (index - 1) if index else b"null"
    return b'{"type":"message","id":"%08x","parent_id":%s,"timestamp":"%s","message":%s}\n' % (
        index,
        parent,
        _TIME.encode(),
        message,
    )


def pi_header(session_id: str, *, cwd: str = "/bench") -> bytes:
    """Line 1 of a pi file."""
    return b'{"type":"session","version":3,"id":"%s","timestamp":"%s","cwd":%s}\n' % (
        session_id.encode(),
        _TIME.encode(),
        msgspec.json.encode(cwd),
    )


def pi_line(index: int, message: bytes) -> bytes:
    """Entry `index` of a pi file that is one long chain."""
    parent = b'"%08x"' % (index - 1) if index else b"null"
    return b'{"type":"message","id":"%08x","parentId":%s,"timestamp":"%s","message":%s}\n' % (
        index,
        parent,
        _TIME.encode(),
        message,
    )
