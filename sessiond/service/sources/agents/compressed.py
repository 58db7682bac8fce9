"""Files that Codex has compressed with zstandard, unpacked in pieces of a fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final, cast

from sessiond.errors import TooLarge
from sessiond.journal.disk.files import Reads
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.service.sources.documents.refusal import corrupt

COMPRESSED: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of each such file."""
_PIECE_BYTES: Final = 256 * 1024


class _Reader:
    """A file as the unpacker reads it, from its first byte up to an end."""

    def __init__(self, files: Reads, fd: int, end: int) -> None:
        self._files = files
        self._fd = fd
        self._left = end
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._files.pread(self._fd, wanted, self._at) if wanted else b""
        self._at += len(data)
        self._left -= len(data)
        return data


def unpacked(
    files: Reads, fd: int, end: int, name: str, bytes_max: int | None = None
) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file, at most `bytes_max`; without it, what an import may have.

    Raises SessionCorrupt, TooLarge, OSError.
    """
    # Few imports need the library.
    import zstandard

    most = IMPORT_BYTES_MAX if bytes_max is None else bytes_max
    size = 0
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**27)
    source = cast("IO[bytes]", _Reader(files, fd, end))
    with unpacker.stream_reader(source, read_across_frames=True) as stream:
        while True:
            try:
                piece = stream.read(_PIECE_BYTES)
            except zstandard.ZstdError as error:
                raise corrupt(name, f"it cannot be unpacked ({error})") from error
            if not piece and not size:
                raise corrupt(name, "it cannot be unpacked (nothing of it is whole)")
            if not piece:
                return
            size += len(piece)
            if size > most:
                text = f"{name} is too large to be read, once it is unpacked"
                raise TooLarge(text, limit=most, size=size)
            yield piece
