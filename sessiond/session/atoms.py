"""Which lines of a file are one append: `atom: [k, n]` on each of its lines, k = 1 to n.

Law: an append whose last lines are missing at the end of a file never was, and its first
line is where it is cut; one that is not whole anywhere else is told and stays, since
others wrote behind it, were it a blank line. A line that does not parse may have been one of
its lines: then nothing is cut at an opening, but a repair, which leaves that line out,
leaves out the rest of it too.
"""

from __future__ import annotations

__all__ = ["Atoms"]


class Atoms:
    """The append that passes by, line after line."""

    __slots__ = ("_before", "_is_begun", "_is_damaged", "_is_told", "_last", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """The line with which the one that passes by began, None between two."""
        self._last = (0, 0)
        self._is_begun = False
        """Whether that was its first line."""
        self._is_told = False
        """Whether it is known to be broken."""
        self._is_damaged = False
        """Whether a line that does not parse lies in it."""
        self._before: list[int] = []
        """The first lines of unfinished ones with nothing but each other behind them."""

    @property
    def unfinished(self) -> int | None:
        """The first line of an append whose last lines are missing here, all before them whole."""
        return None if self._is_damaged else self._cut_from

    @property
    def unfinished_but_for_bad_lines(self) -> int | None:
        """The same of the file without its bad lines, and of all that end it one after another."""
        at = self._cut_from
        return at if at is None else [*self._before, at][0]

    @property
    def _cut_from(self) -> int | None:
        return self.first if self._is_begun and not self._is_told else None

    def skip(self) -> None:
        """A line does not parse."""
        self._is_damaged = self.first is not None

    def take(self, seq: int, atom: tuple[int, int] | None) -> list[int]:
        """The next entry; gives the first lines of appends that turn out to be broken."""
        if self._goes_on(atom):
            return self._follow(seq, atom)
        if self._cut_from is not None:
            self._before.append(self._cut_from)
        self._begin(seq, atom)
        if self._cut_from is not None:
            # What is at the end may still be the end of the file.
            return []
        broken = self._take_before()
        if atom is not None and self.first is not None:
            # It has no beginning, so there is nothing that it could be cut to.
            self._is_told = True
            broken.append(seq)
        return broken

    def _goes_on(self, atom: tuple[int, int] | None) -> bool:
        number, count = self._last
        return self.first is not None and atom is not None and atom[1] == count and atom[0] > number

    def _follow(self, seq: int, atom: tuple[int, int] | None) -> list[int]:
        assert atom is not None, "the caller looked"
        assert self.first is not None, "the caller looked"
        has_gap = atom[0] > self._last[0] + 1
        is_over = atom[0] == atom[1]
        broken = self._take_before() if has_gap or is_over else []
        if has_gap and not self._is_told:
            self._is_told = True
            broken.append(self.first)
        self._last = atom
        if is_over:
            self._begin(seq, None)
        return broken

    def _take_before(self) -> list[int]:
        broken, self._before = self._before, []
        return broken

    def _begin(self, seq: int, atom: tuple[int, int] | None) -> None:
        self.first = seq if atom is not None and (atom[0] < atom[1] or atom[0] > 1) else None
        self._last = atom or (0, 0)
        self._is_begun = atom is not None and atom[0] == 1
        self._is_told = self._is_damaged = False
