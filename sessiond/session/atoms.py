"""Which lines of a file are one append: `atom: [k, n]` on each of its lines, k = 1 to n.

Law: an append of sessiond's own whose last lines are missing at the end of a file never was, and
its first line is where the file is cut. Only its first line can show that it is sessiond's own
(`Intake` decides). An append that nothing shows to be sessiond's own stays: another program may
have copied its lines here. One that is not whole anywhere else stays too and is reported, since
other lines were written behind it, were it a blank line. A line that does not parse may have been
one of its lines: then nothing is cut at an opening, but a repair, which leaves that line out,
leaves out the rest of the append too.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Atoms"]


class _Unfinished(NamedTuple):
    """An append whose last lines are missing, by its first line."""

    first: int
    is_ours: bool


class Atoms:
    """The append that passes by, line after line."""

    __slots__ = ("_before", "_is_begun", "_is_damaged", "_is_ours", "_is_told", "_last", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """The line with which the one that passes by began, None between two."""
        self._last = (0, 0)
        self._is_begun = False
        """Whether that was its first line."""
        self._is_ours = False
        """Whether its first line shows that it is sessiond's own."""
        self._is_told = False
        """Whether it is known to be broken."""
        self._is_damaged = False
        """Whether a line that does not parse lies in it."""
        self._before: list[_Unfinished] = []
        """Unfinished ones with nothing but each other behind them."""

    @property
    def unfinished(self) -> int | None:
        """The first line of an append of ours whose last lines are missing here, all before them whole."""
        return None if self._is_damaged else self.unfinished_of_ours

    @property
    def unfinished_of_ours(self) -> int | None:
        """The first line of an append of ours whose last lines are missing here, bad lines or not."""
        return self.first if self._is_unfinished and self._is_ours else None

    @property
    def unfinished_but_for_bad_lines(self) -> int | None:
        """The first line of all unfinished appends of ours that end the file one after another."""
        at = self.unfinished_of_ours
        if at is not None:
            for one in reversed(self._before):
                if not one.is_ours:
                    break
                at = one.first
        return at

    @property
    def _is_unfinished(self) -> bool:
        return self.first is not None and self._is_begun and not self._is_told

    def skip(self) -> None:
        """A line does not parse."""
        self._is_damaged = self.first is not None

    def take(self, seq: int, atom: tuple[int, int] | None, *, is_ours: bool = False) -> list[int]:
        """The next entry; gives the first lines of appends that turn out to be broken.

        `is_ours`: if this line begins an append, it shows that the append is sessiond's own.
        """
        if self._goes_on(atom):
            return self._follow(seq, atom)
        if self._is_unfinished:
            assert self.first is not None, "something is unfinished"
            self._before.append(_Unfinished(self.first, self._is_ours))
        self._begin(seq, atom, is_ours=is_ours)
        if self._is_unfinished:
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
            self._begin(seq, None, is_ours=False)
        return broken

    def _take_before(self) -> list[int]:
        broken, self._before = [one.first for one in self._before], []
        return broken

    def _begin(self, seq: int, atom: tuple[int, int] | None, *, is_ours: bool) -> None:
        self.first = seq if atom is not None and (atom[0] < atom[1] or atom[0] > 1) else None
        self._last = atom or (0, 0)
        self._is_begun = atom is not None and atom[0] == 1
        self._is_ours = is_ours
        self._is_told = self._is_damaged = False
