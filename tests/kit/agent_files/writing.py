"""Lines into files: at once, or in pieces that end at any byte, as a reader can meet a file while it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from tests.kit.agent_files.dice import Dice

AT_ONCE_BYTES: Final = 1 << 20


def torn(lines: Iterable[bytes], seed: int | str, most_bytes: int = 4096) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces that end anywhere: within a line, a sign, or before a newline.

    A piece can hold many lines; about every fourth one ends just before or just after a newline.
    """
    dice = Dice(f"torn {seed}")
    rest = bytearray()
    wanted = dice.number(1, most_bytes)
    for line in lines:
        rest += line
        rest += b"\n"
        while len(rest) >= wanted:
            end = wanted
            newline = rest.rfind(b"\n", 0, wanted)
            if newline > 0 and dice.chance(0.25):
                end = newline + dice.number(0, 1)
            yield bytes(rest[:end])
            del rest[:end]
            wanted = dice.number(1, most_bytes)
    if rest:
        yield bytes(rest)


def write_torn(
    path: Path,
    lines: Iterable[bytes],
    *,
    seed: int | str = 0,
    most_bytes: int = 4096,
    pause: Callable[[], None] | None = None,
) -> int:
    """Append lines to a file, a write a piece, at full speed; return how many writes ended within a line.

    `pause` is called after each piece that ends within a line, with the line's rest not yet written.
    """
    inside = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        for piece in torn(lines, seed, most_bytes):
            written = file.write(piece)
            assert written == len(piece)
            if not piece.endswith(b"\n"):
                inside += 1
                if pause is not None:
                    pause()
    return inside


def write_fast(path: Path, lines: Iterable[bytes], tail: bytes = b"") -> int:
    """Append whole lines to a file in large writes, and perhaps an unfinished line; return the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    total = 0
    waiting: list[bytes] = []
    size = 0
    with path.open("ab", buffering=0) as file:
        for line in chain(lines, (None,)):
            if line is not None:
                waiting.append(line)
                size += len(line) + 1
            if size >= AT_ONCE_BYTES or line is None:
                data = b"".join(one + b"\n" for one in waiting)
                file.write(data)
                total += len(data)
                waiting, size = [], 0
        file.write(tail)
    return total + len(tail)
