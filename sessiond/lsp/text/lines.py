"""Ids, references and roles of session lines, read without their payloads.

Law: pure, and never fails: a line that is no entry has no id. Both spellings are read, `parent_id`
and `parentId`; the meaning of a reference is the daemon's task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.lsp.text.runs import Run, Runs

# The beginning of a string, or a bracket; text between them is skipped.
_TOKEN: Final = re.compile(r'["{}\[\]]')
_WITHIN_STRING: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
# Other threads run between pieces of a string of this size.
PIECE_CHARS: Final = 64 * 1024
_COLON: Final = re.compile(r"\s*:\s*")
_NAMES: Final = {
    '"id"': "id",
    '"parent_id"': "parent_id",
    '"parentId"': "parent_id",
    '"target_id"': "target_id",
    '"targetId"': "target_id",
    '"first_kept_entry_id"': "first_kept_entry_id",
    '"firstKeptEntryId"': "first_kept_entry_id",
    '"from_id"': "from_id",
    '"fromId"': "from_id",
}


class _Message(Struct):
    role: Any = None


class _Line(Struct):
    id: Any = None
    message: _Message | None = None


class _Bare(Struct):
    id: Any = None


_whole = typed.decoder(_Line)
_bare = typed.decoder(_Bare)


class Reference(NamedTuple):
    """An id in a line: the member that holds it, and its place within its quotes."""

    member: str
    entry_id: str
    start: int
    end: int


class LineFacts(Struct, frozen=True, gc=False):
    """Facts of a line in an index; there are many, and the garbage collector passes them by."""

    entry_id: str | None
    role: str | None


_NO_ENTRY: Final = LineFacts(None, None)


class Index:
    """Line of each id in a text, and role of each message line; follows the edits of the text.

    The first line, the header, has no id here. An index that a thread reads is a `copy`.
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._facts: Runs[LineFacts] = Runs()
        self._places: _Places | None = _Places()
        self.splice(0, 0, facts_of(lines))

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def roles(self) -> Mapping[int, str]:
        """Role of each line that has one."""
        return _Roles(self._facts)

    def copy(self) -> Index:
        """Return a copy for a thread; costs next to nothing before its first `line_of`."""
        copied = Index()
        copied._facts = self._facts.copy()
        copied._places = None
        return copied

    def facts(self, first: int, last: int) -> list[LineFacts]:
        """Return the facts of the lines from `first` up to, without, `last`."""
        return [self._facts[line] for line in range(first, last)]

    def splice(self, first: int, last: int, facts: Sequence[LineFacts]) -> None:
        """Follow an edit of the text: put facts in the place of those from `first` to `last`."""
        exchange = self._facts.splice(first, last, facts)
        if self._places is not None:
            for run in exchange.gone:
                self._places.remove(run)
            for run in exchange.fresh:
                self._places.add(run)

    def line_of(self, entry_id: str) -> int | None:
        """Return the line of an entry, the last one if there are several.

        None if the text has none.
        """
        if self._places is None:
            self._places = _Places()
            for run in self._facts.runs:
                self._places.add(run)
        line = self._places.last(entry_id)
        return line or None


class _Roles(Mapping[int, str]):
    """Roles by line."""

    def __init__(self, facts: Runs[LineFacts]) -> None:
        self._facts = facts

    def __getitem__(self, line: int) -> str:
        role = self._facts[line].role if 0 <= line < len(self._facts) else None
        if role is None:
            raise KeyError(line)
        return role

    def __iter__(self) -> Iterator[int]:
        return (line for line, found in enumerate(self._facts) if found.role is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Places:
    """Runs in which each id stands."""

    def __init__(self) -> None:
        self._runs: dict[str, Run[LineFacts]] = {}
        self._repeated: dict[str, list[Run[LineFacts]]] = {}
        """Runs of an id that stands in more than one."""
        self._within: dict[Run[LineFacts], dict[str, int]] = {}
        """Last place of each id within a run, for runs that were asked for."""

    def add(self, run: Run[LineFacts]) -> None:
        """Add the ids of a run."""
        for entry_id in _ids(run):
            known = self._runs.setdefault(entry_id, run)
            if known is not run:
                self._repeated.setdefault(entry_id, [known]).append(run)

    def remove(self, run: Run[LineFacts]) -> None:
        """Remove the ids of a run."""
        self._within.pop(run, None)
        for entry_id in _ids(run):
            runs = self._repeated.get(entry_id)
            if runs is None:
                self._runs.pop(entry_id, None)
                continue
            runs.remove(run)
            self._runs[entry_id] = runs[0]
            if len(runs) == 1:
                del self._repeated[entry_id]

    def last(self, entry_id: str) -> int | None:
        """Return the last line with an id."""
        run = self._runs.get(entry_id)
        if run is None:
            return None
        if (runs := self._repeated.get(entry_id)) is not None:
            run = max(runs, key=lambda one: one.start)
        within = self._within.get(run)
        if within is None:
            within = {
                one.entry_id: at for at, one in enumerate(run.items) if one.entry_id is not None
            }
            self._within[run] = within
        return run.start + within[entry_id]


def facts_of(lines: Iterable[str]) -> list[LineFacts]:
    """Return the facts of each line; the only place that parses the lines of a text."""
    return [_facts(line) for line in lines]


def _facts(line: str) -> LineFacts:
    found = read_line(line)
    message = found.message if isinstance(found, _Line) else None
    entry_id = found.id if isinstance(found.id, str) else None
    role = message.role if message is not None and isinstance(message.role, str) else None
    return _NO_ENTRY if entry_id is None and role is None else LineFacts(entry_id, role)


def _ids(run: Run[LineFacts]) -> set[str]:
    return {found.entry_id for found in run.items if found.entry_id is not None}


def own_id(line: str) -> str | None:
    """Return the id of the entry in a line; None without one."""
    found = read_line(line).id
    return found if isinstance(found, str) else None


def references(line: str) -> Iterator[Reference]:
    """Yield the ids at the top level of a line's object, in the order of the line."""
    depth = 0
    at = 0
    while (token := _TOKEN.search(line, at)) is not None:
        at = token.end()
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        else:
            at = _string_end(line, at)
            if depth == 1 and (colon := _COLON.match(line, at)) is not None:
                # A name. The next token is its value, never a name, even if it is a string.
                member = _NAMES.get(line[token.start() : at])
                at = start = colon.end()
                if not line.startswith('"', start):
                    continue
                at = _string_end(line, start + 1)
                if member and (entry_id := _text(line[start:at])) is not None:
                    yield Reference(member, entry_id, start + 1, at - 1)


def _string_end(line: str, at: int) -> int:
    """Return the place behind a string's quotation mark; the end of a line that is torn there."""
    close = line.find('"', at)
    if close >= 0 and line.find("\\", at, close) < 0:
        return close + 1
    while at < len(line):
        # An escape that does not fit into a piece is at the beginning of the next one.
        piece = _WITHIN_STRING.match(line, at, at + PIECE_CHARS)
        assert piece is not None, "the pattern also matches nothing"
        at = piece.end()
        if line.startswith('"', at):
            return at + 1
        if at == len(line) - 1:
            break
    return len(line)


def read_line(line: str) -> _Line | _Bare:
    """Return the members of a line that an index needs; none of a line that is no object."""
    for decoder in (_whole, _bare):
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
    return _Bare()


def _text(quoted: str) -> str | None:
    try:
        return typed.decode(quoted, str)
    except (msgspec.DecodeError, UnicodeError):
        return None
