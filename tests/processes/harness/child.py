"""A program of a test's own, in a process that speaks and listens in lines."""

from __future__ import annotations

import subprocess
from typing import Any, Protocol

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Child", "Start"]


class Child(subprocess.Popen[str]):
    """A process whose standard input and output belong to the test."""

    def __init__(self, *command: object, **options: Any) -> None:
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
        super().__init__([*map(str, command)], text=True, **given)

    def word(self) -> str:
        """Return the next line that the program says."""
        assert self.stdout is not None
        return self.stdout.readline().strip()

    def tell(self, line: str) -> None:
        """Give the program a line."""
        assert self.stdin is not None
        self.stdin.write(f"{line}\n")
        self.stdin.flush()

    def end(self) -> None:
        """Kill the program, and wait until it is gone."""
        self.kill()
        self.wait(PATIENCE_SECONDS)


class Start(Protocol):
    """Starts a program, with options of `Popen`; the program ends with the test at the latest."""

    def __call__(self, *command: object, **options: Any) -> Child: ...
