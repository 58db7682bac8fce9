"""Atomic appends: `atom: [k, n]`, k = 1 to n, on each line of one append.

Law: an append of sessiond's own whose last lines are missing at the end of a file never happened,
and the file is cut at the append's first line. Only the first line can show that the append is
sessiond's own (`Intake` decides). An append that nothing shows to be sessiond's own stays: another
program may have copied its lines here. An incomplete append anywhere else stays too and is
reported, since other lines, at least a blank one, were written behind it. A line that does not
parse may have been part of an append. An opening then cuts nothing; a repair, which leaves that
line out, leaves out the rest of the append too.
"""

from __future__ import annotations

from msgspec import Struct


class _Unfinished(Struct, frozen=True):
    """An append whose last lines are missing, named by its first line."""

    first: int
    is_ours: bool


class Atoms:
    """Tracker of the append that the scanned lines belong to, line after line."""

    __slots__ = ("_before", "_is_begun", "_is_damaged", "_is_ours", "_is_told", "_last", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """First line of the current append; None between two appends."""
        self._last = (0, 0)
        self._is_begun = False
        """True if the current append was seen from its line [1, n] on."""
        self._is_ours = False
        """True if the first line shows that the current append is sessiond's own."""
        self._is_told = False
        """True if the current append is known to be broken."""
        self._is_damaged = False
        """True if a line that does not parse lies in the current append."""
        self._before: list[_Unfinished] = []
        """Earlier unfinished appends, each followed directly by the next unfinished one."""

    @property
    def unfinished(self) -> int | None:
        """First line of an append of sessiond's own that lacks only its last lines here; None for none."""
        return None if self._is_damaged else self.unfinished_of_ours

    @property
    def unfinished_of_ours(self) -> int | None:
        """First line of an append of sessiond's own that lacks its last lines here, bad lines or not."""
        return self.first if self._is_unfinished and self._is_ours else None

    @property
    def unfinished_but_for_bad_lines(self) -> int | None:
        """First line of all unfinished appends of sessiond's own that end the file one after another."""
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
        """Record a line that does not parse."""
        self._is_damaged = self.first is not None

    def take(self, seq: int, atom: tuple[int, int] | None, *, is_ours: bool = False) -> list[int]:
        """Record the next entry; return the first lines of appends that turn out to be broken.

        `is_ours`: if this line begins an append, the line shows that the append is sessiond's own.
        """
        if self._goes_on(atom):
            return self._follow(seq, atom)
        if self._is_unfinished:
            assert self.first is not None, "something is unfinished"
            self._before.append(_Unfinished(self.first, self._is_ours))
        self._begin(seq, atom, is_ours=is_ours)
        if self._is_unfinished:
            # The file may end here, so the unfinished append is not broken yet.
            return []
        broken = self._take_before()
        if atom is not None and self.first is not None:
            # The append lacks its beginning, so there is no line at which it could be cut.
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
