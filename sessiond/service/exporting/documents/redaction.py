"""Redaction: texts that match a pattern are replaced before an export has them.

Law: patterns run in a process of their own, which the system ends when a batch needs more processor
time than its size allows. So a pattern that never ends costs one export, not the daemon.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from sessiond import typed
from sessiond.errors import InvalidParams

_PROGRAM: Final = Path(__file__).with_name("redactor.py")
_SLOW: Final = (
    "the patterns need too much time or memory for the texts of this session: avoid repetitions"
    " inside repetitions, like (a+)+"
)


class Redaction(Protocol):
    """Replacement of matches in JSON lines."""

    def lines(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines with redacted texts. Raises InvalidParams for patterns that do not end."""
        ...

    def value(self, value: Any) -> Any:
        """Return a JSON value with redacted texts. Raises InvalidParams."""
        ...


class _Nothing:
    def lines(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        return lines

    def value(self, value: Any) -> Any:
        return typed.decode(msgspec.json.encode(value))


NO_REDACTION: Final[Redaction] = _Nothing()


@contextmanager
def redaction(patterns: Sequence[str]) -> Generator[Redaction]:
    """Give a redaction by these patterns, and end its process. Raise InvalidParams for a bad one."""
    if not patterns:
        yield NO_REDACTION
        return
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM)]
    with subprocess.Popen(  # noqa: S603 - our own program, given by its whole path
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    ) as process:
        try:
            yield _Process(process, patterns)
        finally:
            process.kill()
            # A pipe that still holds lines for a process that has ended cannot be flushed.
            with suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()


class _Process:
    """The process, and what it is asked."""

    def __init__(self, process: subprocess.Popen[bytes], patterns: Sequence[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        (answer,) = self._asked([msgspec.json.encode(list(patterns))], 1)
        bad = typed.decode(answer, tuple[int, str] | None)
        if bad is not None:
            index, reason = bad
            raise InvalidParams(f"not a regular expression: {reason}", path=f"redact[{index}]")

    def lines(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        return self._asked([b"%d" % len(lines), *lines], len(lines))

    def value(self, value: Any) -> Any:
        (line,) = self.lines([msgspec.json.encode(value)])
        return typed.decode(line)

    def _asked(self, lines: Sequence[bytes], answers: int) -> list[bytes]:
        try:
            self._in.write(b"".join(line + b"\n" for line in lines))
            self._in.flush()
        except BrokenPipeError:
            raise InvalidParams(_SLOW, path="redact") from None
        found = [self._out.readline() for _ in range(answers)]
        if not all(line.endswith(b"\n") for line in found):
            raise InvalidParams(_SLOW, path="redact")
        return [line[:-1] for line in found]
