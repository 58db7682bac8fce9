"""A process that the tests kill. What it does is its first argument; it says each step on fd 1.

append FILE LOCKS COUNT [CUT]   batches of COUNT lines for ever, "ack <last line>" after each;
                                with CUT it kills itself inside a write, after so many bytes
hold FILE LOCKS                 open the file, say "open", keep it until killed
full FILE LOCKS BYTES           append under a file size limit until refused
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal


class DyingFiles(Files):
    """Dies in the fifth write to a session, with some of its bytes written."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.left = 5

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if bytes(data[:2]) == b'{"':
            self.left -= 1
            if self.left == 0:
                os.write(fd, data[: self.cut])
                os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def open_journal(files: Files, path: Path, locks: Path) -> Journal:
    journal = Journal.open(files, path, lambda _seq, _lines: None, locks=locks)
    journal.truncates = True
    if journal.tail:
        journal.cut_tail(f"{journal.line_count}-{os.getpid()}")
    return journal


def append(path: Path, locks: Path, count: int, cut: int | None) -> None:
    journal = open_journal(Files() if cut is None else DyingFiles(cut), path, locks)
    while True:
        first = journal.line_count
        lines = [b'{"n":%d,"of":"%s"}' % (n, b"x" * (n % 300)) for n in range(first, first + count)]
        journal.append(lines, sync=True)
        say(f"ack {journal.line_count - 1}")


def hold(path: Path, locks: Path) -> None:
    try:
        open_journal(Files(), path, locks)
    except SessionLocked as error:
        say(f"locked {error.data()['holder']['pid']}")
        return
    say("open")
    signal.pause()


def full(path: Path, locks: Path, limit: int) -> None:
    journal = open_journal(Files(), path, locks)
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    acknowledged = journal.line_count
    try:
        while True:
            journal.append([b'{"n":%d}' % acknowledged, b"x" * 700], sync=True)
            acknowledged += 2
    except StorageError as error:
        say(f"{error.data()['errno']} {acknowledged} {journal.line_count}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    journal.append([b'{"again":1}'], sync=True)
    journal.close()


def main() -> None:
    name, path, locks, *rest = sys.argv[1:]
    numbers = [int(number) for number in rest]
    if name == "append":
        append(Path(path), Path(locks), numbers[0], numbers[1] if len(numbers) > 1 else None)
    elif name == "hold":
        hold(Path(path), Path(locks))
    else:
        full(Path(path), Path(locks), numbers[0])


if __name__ == "__main__":
    main()
