"""Accidents of repairs.

c3e3c139: a repair carried the lines that came late up to the file's size, which can stand inside a line. The first
bytes of a line went to the new file, lines of other programs came behind them, and the rest of the line last.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from sessiond.service.files.checking.repairing import bring_late_lines
from tests.kit.lines import atom_line
from tests.kit.sessions import native_file

HEADER = native_file([])


class Meanwhile(Files):
    """A disk on which other programs write while a repair waits."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        super().__init__()
        self._steps = [*steps]

    def pause(self, seconds: float) -> None:
        """Let one program write."""
        del seconds
        if self._steps:
            self._steps.pop(0)()


def added(path: Path, data: bytes) -> Callable[[], None]:
    """Return what writes bytes behind those of a file."""

    def add() -> None:
        with path.open("ab") as file:
            file.write(data)

    return add


@pytest.mark.parametrize("becomes_whole", [True, False])
def test_half_a_line_in_the_old_file_joins_no_other_line(
    tmp_path: Path, becomes_whole: bool
) -> None:
    old, young = tmp_path / "old", tmp_path / "young"
    line, other = atom_line("n1") + b"\n", atom_line("n2") + b"\n"
    old.write_bytes(HEADER + line + line[:4])
    young.write_bytes(HEADER)
    steps = [added(young, other), *([added(old, line[4:])] if becomes_whole else [])]
    files = Meanwhile(*steps)
    fd = files.open_update(old)
    try:
        bring_late_lines(files, fd, len(HEADER), young)
    finally:
        files.close(fd)
    added(young, other)()
    half = line if becomes_whole else line[:4] + b"\n"
    assert young.read_bytes() == HEADER + line + other + half + other
