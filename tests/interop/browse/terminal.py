"""The command in a terminal of tmux: keys are typed, and the screen is read as a person sees it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.processes.harness.daemon import SESSIOND

__all__ = ["Terminal", "terminal"]

# The screen outlives the program, with its exit status below.
_SHELL: Final = '"$@"; echo "[status $?]"; exec sleep 1000'


class Terminal:
    """A terminal of a given size, with a program in it."""

    def __init__(self, tmux: str, socket: Path, environment: Mapping[str, str]) -> None:
        self._command = [tmux, "-S", str(socket), "-f", os.devnull]
        self._environment = environment

    def ask(self, *words: str) -> str:
        """Run a command of tmux; return what the command prints."""
        done = subprocess.run(
            [*self._command, *words],
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys."""
        self.ask("send-keys", *keys)

    def screen(self, *options: str) -> str:
        """Return the screen without blanks at the ends of lines; `options` are those of tmux."""
        # A capture may fall into the middle of a drawing: two in a row show a whole one.
        seen = ["", self._captured(*options)]

        def is_whole() -> bool:
            if seen[0] == seen[1]:
                return True
            seen[:] = [seen[1], self._captured(*options)]
            return False

        soon(is_whole, lambda: "the screen changes all the time")
        return seen[1]

    def _captured(self, *options: str) -> str:
        captured = self.ask("capture-pane", "-p", *options)
        return "\n".join(line.rstrip() for line in captured.split("\n"))

    def until(self, is_it: Callable[[], bool]) -> None:
        """Wait for a condition."""
        soon(is_it, self.screen)

    def until_shown(self, *texts: str, options: Sequence[str] = ()) -> str:
        """Wait until the screen shows every text; return the screen."""

        def shown() -> str | None:
            screen = self.screen(*options)
            return screen if all(text in screen for text in texts) else None

        return soon(shown, lambda: f"no {texts} in:\n{self.screen(*options)}")

    def until_ended(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit status and the words that it printed."""
        history = ("-J", "-S", "-")
        said = self.until_shown("[status ", options=history)
        before, _, status = said.partition("[status ")
        return int(status.partition("]")[0]), " ".join(before.split())

    def pid(self) -> int:
        """Return the process of the program, which is the one child of the shell."""
        shell = self.ask("display-message", "-p", "#{pane_pid}").strip()
        (pid,) = Path(f"/proc/{shell}/task/{shell}/children").read_text("utf-8").split()
        return int(pid)


@contextmanager
def terminal(
    tmux: str,
    folder: Path,
    environment: Mapping[str, str],
    size: tuple[int, int],
    *options: str,
) -> Iterator[Terminal]:
    """Run `sessiond browse` in a terminal whose working folder is `folder`."""
    socket = folder.parent / f"tmux-{os.urandom(4).hex()}"
    own = {name: value for name, value in environment.items() if name not in {"COLUMNS", "LINES"}}
    shown = Terminal(tmux, socket, {**own, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    place = ["-x", str(size[0]), "-y", str(size[1]), "-c", str(folder)]
    program = ["sh", "-c", _SHELL, "sh", SESSIOND, "browse", *options]
    try:
        shown.ask("new-session", "-d", *place, *program)
        yield shown
    finally:
        shown.ask("kill-server")
