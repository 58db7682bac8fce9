"""The answers owed for a stream of bytes, by the two framings of protocol.md.

Law: behind a header that can be read in two ways no answer is owed. This module uses no code of
sessiond.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.fuzz.judge import BLANK, FRAME_BYTES_MAX, LARGE, PARSE, REQUEST, Debt, debt_of, refusal

__all__ = ["Owed", "debts"]

_LENGTH_DIGITS: Final = 18
# Close to the bound, the rest of the header decides.
_HEADER_BYTES: Final = 8000


class Owed(NamedTuple):
    """The answers that a stream is owed."""

    debts: list[Debt]
    closes: bool
    """True if the daemon may leave the rest of the stream unread."""


def debts(stream: bytes) -> Owed:
    """Return the answers owed for exactly this stream followed by the end of input."""
    start = stream.lstrip(BLANK)
    if start[:1] in (b"{", b"["):
        bodies = [line.removesuffix(b"\r") for line in start.split(b"\n") if line.strip(BLANK)]
        owed = [debt_of(body) for body in bodies]
        return Owed([debt for debt in owed if debt is not None], closes=False)
    if start[:8].lower() == b"content-":
        return _framed(start)
    return Owed([], closes=True)


def _framed(stream: bytes) -> Owed:
    owed: list[Debt] = []
    while stream:
        if stream.lstrip(b"\r\n")[:1] in {b"{", b"["}:
            # JSON without a header: the client changed its framing.
            return Owed([*owed, refusal(REQUEST)], closes=True)
        header, mark, rest = stream.partition(b"\r\n\r\n")
        if not mark:
            break
        length = _plain_length(header)
        if length is None:
            return Owed(owed, closes=True)
        if length > FRAME_BYTES_MAX:
            owed.append(refusal(LARGE))
        elif length <= len(rest):
            debt = debt_of(rest[:length]) if length else refusal(PARSE)
            if debt is not None:
                owed.append(debt)
        stream = rest[length:]
    return Owed(owed, closes=bool(stream))


def _plain_length(header: bytes) -> int | None:
    """Return the length that every reader of the LSP's base protocol finds; None if in doubt."""
    found: list[int] = []
    for line in header.lstrip(b"\r\n").split(b"\r\n"):
        name, colon, value = line.partition(b": ")
        if not colon or not name.replace(b"-", b"").isalnum() or b"\n" in line or b"\r" in line:
            return None
        if name.lower() == b"content-length":
            if not value.isdigit() or len(value) > _LENGTH_DIGITS:
                return None
            found.append(int(value))
    return found[0] if len(found) == 1 and len(header) < _HEADER_BYTES else None
