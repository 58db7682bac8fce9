"""Pager for output that is longer than the terminal is high.

Law: output for programs is never paged, and output that fits on the screen is printed directly.
The pager starts when the first screen is full, so a long answer takes no memory here.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, TypeVar

import click

from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.text import cells

F = TypeVar("F", bound=Callable[..., Any])

# Options of less: end at once if all fits, keep colours, do not clear the screen.
_LESS: Final = "FRX"
# S also cuts long lines, which a drawing needs: the arrow keys show the rest.
_LESS_OF_DRAWINGS: Final = "FRSX"
_NOT_FOUND: Final = 127


def pager_option(command: F) -> F:
    """Add `--no-pager`; without it the command's output goes through a pager."""

    @functools.wraps(command)
    def run(*arguments: Any, no_pager: bool, **named: Any) -> Any:
        # Output that follows a session has no last page.
        if no_pager or named.get("follow"):
            return command(*arguments, **named)
        with paged():
            return command(*arguments, **named)

    flag = click.option("--no-pager", is_flag=True, help="Print without a pager.")
    return flag(run)  # type: ignore[return-value]  # click's decorators return their argument's type


@contextmanager
def paged() -> Generator[None]:
    """Send standard output through a pager while the block runs, if a person reads it."""
    program = _program(os.environ)
    if program is None or not sys.stdout.isatty():
        yield
        return
    screen = _Screen(program, sys.stdout)
    sys.stdout = screen
    try:
        yield
    finally:
        sys.stdout = screen.terminal
        screen.end()


def _program(environment: Mapping[str, str]) -> str | None:
    """Return the command line of the pager; None if there is none."""
    if environment.get("TERM") == "dumb":
        return None
    program = environment.get("PAGER")
    if program is None:
        return "less" if shutil.which("less") else None
    return program if program.strip() not in {"", "cat"} else None


class _Screen(io.TextIOBase):
    """Standard output that goes to a pager once the screen is full."""

    is_drawing = False
    encoding = "utf-8"  # pyright: ignore[reportAssignmentType] - a property of the base class
    # click takes a stream without `errors` for a byte stream.
    errors = "strict"  # pyright: ignore[reportAssignmentType]

    def __init__(self, program: str, terminal: Any) -> None:
        self.terminal: Any = terminal
        self._program = program
        self._size = shutil.get_terminal_size()
        self._held: list[str] = []
        self._lines = 0
        self._pager: subprocess.Popen[str] | None = None

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        number: int = self.terminal.fileno()
        return number

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        """Keep the text, or pass it on. Raise click's Exit when the reader left the pager."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            # click writes b"" to find out whether a stream takes bytes.
            raise TypeError("text only")
        if self._pager is None:
            self._held.append(text)
            self._lines += sum(
                max(1, -(-cells(line) // self._size.columns)) for line in text.split("\n")[:-1]
            )
            if self._lines < self._size.lines:
                return len(text)
            self._start()
        else:
            self._pass_on(text)
        return len(text)

    def flush(self) -> None:
        """Flush the text that the pager has not received."""
        if self._pager is not None:
            try:
                self._input.flush()
            except BrokenPipeError:
                raise click.exceptions.Exit(0) from None

    def _start(self) -> None:
        options = _LESS_OF_DRAWINGS if self.is_drawing else _LESS
        environment = {"LESS": options, "LV": "-c", **os.environ}
        # $PAGER may hold shell syntax; git also runs it in a shell.
        self._pager = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", self._program],
            stdin=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._pass_on("".join(self._held))
        self._held.clear()

    def _pass_on(self, text: str) -> None:
        try:
            self._input.write(text)
        except BrokenPipeError:
            raise click.exceptions.Exit(0) from None

    @property
    def _input(self) -> IO[str]:
        assert self._pager is not None
        assert self._pager.stdin is not None
        return self._pager.stdin

    def end(self) -> None:
        """Print the kept text, or wait until the reader leaves the pager. Raise Failure."""
        if self._pager is None:
            self.terminal.write("".join(self._held))
            self.terminal.flush()
            return
        # While the pager runs, Ctrl-C belongs to the pager.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with suppress(BrokenPipeError):
                self._input.close()
            status = self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        if status == _NOT_FOUND:
            what = f"the pager {self._program!r} cannot be run"
            raise Failure(what, "set $PAGER to an installed pager, or use --no-pager")
