"""The full-text index over the lines of sessions, in `search.sqlite`.

Rule 1: the index is never the truth. A session's rows are valid for the recorded epoch and up to
the recorded line. Deleting the file costs reading the sessions again.
Rule 2: a removed word leaves the pages of the file with `erased`, not before: FTS5 only notes that it is removed
until its segments are merged. `removals` says how many removals there were, and up to which one they are erased.
Rule 3: words and pieces are those of `indexable`. SQLite keeps of the words their places, and of the pieces only the
rows; with their places they would be twice as large. It asks the views `said` and `cut` for what is removed; the views
make it from what was said, which is compressed.
Rule 4: beyond `bytes_max` the oldest outputs of tools leave the index, then the oldest arguments, then the oldest
messages. `cuts` says how old; what is older is not taken in again until the bound is raised.
Rule 5: an index of another version is asked until today's has all sessions. That one is made beside it, in
`search.sqlite.next`, and then takes its place by one renaming: a kill leaves one of them whole, and what is made goes
on. The older one is asked in today's words, and where they do not fit it, it has no hits. Nothing can be removed from
it, so it goes as a whole if it has what is to be removed.
Blocking: any worker thread may call a method; a lock lets one call run at a time.
"""

from __future__ import annotations

import os
import sqlite3
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, json, structs

from sessiond.catalog.guarded import (
    FAILURES,
    GuardedDatabase,
    Tables,
    read_only,
    remove_files,
    require_types,
)
from sessiond.catalog.matching import Match
from sessiond.catalog.pieces import indexable, pieces_in, spelled, words_in
from sessiond.catalog.snippets import snippet
from sessiond.errors import StorageError
from sessiond.limits import INDEX_BYTES_MAX, INDEX_FREE_BYTES, MERGE_PAGES, REMOVED_ROWS_MAX
from sessiond.model.searched import Part, Searched

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    end INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    left_out INTEGER NOT NULL,
    outputs INTEGER NOT NULL,
    is_cut INTEGER NOT NULL
);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    entry_id TEXT,
    part INTEGER NOT NULL,
    role TEXT NOT NULL,
    tool TEXT NOT NULL,
    call INTEGER NOT NULL,
    time INTEGER NOT NULL,
    at INTEGER,
    size INTEGER,
    mark INTEGER,
    text NOT NULL
);
CREATE INDEX entries_by_session ON entries (number);
CREATE INDEX entries_by_time ON entries (part, time);
CREATE TABLE cuts (part INTEGER PRIMARY KEY, before INTEGER NOT NULL, bytes_max INTEGER NOT NULL);
CREATE TABLE removals (count INTEGER NOT NULL, erased INTEGER NOT NULL);
INSERT INTO removals VALUES (0, 0);
CREATE VIEW said AS SELECT row, words_of(text) AS text FROM entries;
CREATE VIEW cut AS SELECT row, pieces_of(text) AS text FROM entries;
CREATE VIRTUAL TABLE words USING fts5(
    text, content = 'said', content_rowid = 'row',
    tokenize = "unicode61 remove_diacritics 2 categories 'L* M* N* Co'"
);
CREATE VIRTUAL TABLE pieces USING fts5(
    text, content = 'cut', content_rowid = 'row', detail = none, columnsize = 0,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);
"""
_INDEXES: Final = ("words", "pieces")


def _bring_functions(connection: sqlite3.Connection, _folder: Path) -> None:
    """Give a connection the functions that the views ask for the words and the pieces of a text."""
    connection.create_function("words_of", 1, _words_of)
    connection.create_function("pieces_of", 1, _pieces_of)


# The words of a line are made again when the line is removed, so they must not change: a new `indexable` is a
# new version, and so is another Unicode ("14.0.0"), where characters are spelled that were unknown before.
_VERSION: Final = 70_000 + int(unicodedata.unidata_version.replace(".", ""))
_TABLES: Final = Tables(
    "search index",
    version=_VERSION,
    make=lambda _none: _SCHEMA,
    temporary="PRAGMA trusted_schema = ON;",  # or a view could have no function of ours
    arrive=_bring_functions,
)
_MARK: Final = "epoch, seq, end, chars, left_out, outputs"
_MARK_TYPES: Final = (str, int, int, int, int, int)
# A round ends early where lines were added meanwhile.
_ROUNDS_MAX: Final = 4
# The texts that leave the index where it has no room, those first that are missed least.
_LEAVING: Final = (Part.OUTPUT, Part.ARGUMENTS, Part.MESSAGE)
_ADD: Final = """
INSERT INTO entries (number, seq, entry_id, part, role, tool, call, time, at, size, mark, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIND: Final = f"""
SELECT entries.row, sessions.session_id, entries.entry_id, entries.seq, part, tool, at, size, mark
FROM {{words}}
JOIN entries ON entries.row = {{words}}.rowid
JOIN sessions ON sessions.number = entries.number
WHERE {{matches}}
    AND (:session_id IS NULL OR sessions.session_id = :session_id)
    AND (:role IS NULL OR role = :role)
    AND (:tool IS NULL OR tool = :tool COLLATE NOCASE)
    AND (:since IS NULL OR time >= :since)
ORDER BY max(part, {Part.MESSAGE}), {{rank}}, time DESC, entries.row DESC LIMIT :limit
"""  # noqa: S608 - no part comes from outside
_MATCH_WORDS: Final = "words MATCH :words"
_MATCH_PIECES: Final = "pieces MATCH :pieces"
_FIND_WORDS: Final = _FIND.format(words="words", matches=_MATCH_WORDS, rank="rank")
_FIND_PIECES: Final = _FIND.format(words="pieces", matches=_MATCH_PIECES, rank="NULL")
# The sign lets SQLite ask for the words once, and not for each text that has the pieces.
_FIND_BOTH: Final = _FIND.format(
    words="words",
    matches=f"{_MATCH_WORDS} AND +words.rowid IN (SELECT rowid FROM pieces WHERE {_MATCH_PIECES})",  # noqa: S608
    rank="rank",
)


class Indexed(Struct, frozen=True):
    """The part of a session that is indexed: up to line `seq`, which ends before byte `end`.

    `chars` counts the characters of its text. Of a session that is `left_out` nothing is indexed, and
    it has at least so many. `outputs` is false for a session whose outputs of tools are not indexed.
    """

    epoch: str
    seq: int
    end: int
    chars: int = 0
    left_out: bool = False
    outputs: bool = True


class LinePlace(Struct, frozen=True):
    """The bytes of a line in its file, and the checksum by which they are known again."""

    at: int
    size: int
    mark: int


class Text(Struct, frozen=True):
    """One of the texts of a line, and the time of the line; the header has no entry id."""

    seq: int
    entry_id: str | None
    said: Searched
    time: int = 0
    """Milliseconds since 1970; 0 if unknown."""
    place: LinePlace | None = None
    """None if the line is not one piece of a file."""

    @property
    def chars(self) -> int:
        """Number of characters."""
        return len(self.said.text)


class Addition(Struct, frozen=True):
    """Texts of a session that come to the index, and its indexed part then; with `anew`, in place of those before."""

    session_id: str
    mark: Indexed
    texts: Sequence[Text]
    anew: bool


class Found(Struct, frozen=True):
    """A hit of a search.

    `tool` is there if the words stand in the arguments or the output of a call, and may be "". `checked`
    is there, and false, if the source of the hit could not be read again.
    """

    session_id: str
    entry_id: str | None
    seq: int
    snippet: str
    tool: str | UnsetType = UNSET
    checked: bool | UnsetType = UNSET


Hit = tuple[Found, LinePlace | None]
"""A hit with the place of its line."""
Choose = Callable[[Set[str]], Set[str]]
_Row = tuple[Any, ...]


class Filters(Struct, frozen=True):
    """The parts of entries in which a search looks; `since` is in milliseconds since 1970."""

    session_id: str | None = None
    role: str | None = None
    tool: str | None = None
    since: int | None = None


_ALL: Final = Filters()


class TextIndex:
    """The full-text index of one profile."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Remember the path; the first use opens or creates the file."""
        beside = path.with_name(f"{path.name}.next")
        self._path = path
        self._older = path if _version_of(path) not in {None, 0, _VERSION} else None
        """An index of another version; None where there is none."""
        self.is_beside = self._older is not None or (not path.exists() and beside.exists())
        """True while the index is made beside the place that it is to take."""
        if not self.is_beside:
            with suppress(OSError):
                remove_files(beside)
        self.file = GuardedDatabase(beside if self.is_beside else path, _TABLES, on_trouble)
        self.bytes_max = INDEX_BYTES_MAX
        """Bound of the file's bytes; the log beside it is small."""
        self._folder = path.parent

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def indexed(self) -> dict[str, Indexed]:
        """Return the indexed part of each session."""

        def all_of_them(connection: sqlite3.Connection) -> dict[str, Indexed]:
            rows = connection.execute(f"SELECT session_id, {_MARK} FROM sessions")  # noqa: S608
            return {session_id: _indexed(mark) for session_id, *mark in rows}

        self.file.look()
        return self.file.use(all_of_them)

    def amounts(self) -> dict[str, Indexed]:
        """Return what `indexed` returns, without making an index where there is none."""
        return self.indexed() if self.file.is_there() else {}

    def indexed_of(self, session_id: str) -> Indexed | None:
        """Return the indexed part of one session; None if the session is not indexed."""

        def one(connection: sqlite3.Connection) -> Indexed | None:
            row = connection.execute(
                f"SELECT {_MARK} FROM sessions WHERE session_id = ?",  # noqa: S608 - our names
                (session_id,),
            ).fetchone()
            return None if row is None else _indexed(row)

        return self.file.use(one)

    def put(self, added: Sequence[Addition]) -> None:
        """Add lines of sessions and record their indexed parts, in one transaction.

        Raises StorageError, also while the disk is almost full: the sessions need its last room.
        """
        if any(one.texts for one in added):
            self._require_free()

        def store(connection: sqlite3.Connection) -> None:
            cuts = _cuts(connection)
            for one in added:
                _add(connection, one, cuts)

        self.file.use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove sessions from the index, in steps between which other uses have their turn.

        Their words leave the pages of the file with `erased`, and the index of another version goes if it has any.
        """
        gone = [*session_ids]
        self.leave_older(gone)
        for session_id in gone:
            while self.file.use(partial(_drop, session_id=session_id, rows_max=REMOVED_ROWS_MAX)):
                pass

    def take_place(self) -> None:
        """Let the index, which has all sessions by now, take the place of that of another version. Raises StorageError."""
        if self.is_beside:
            self.file.take_place(self._path)
            self.is_beside, self._older = False, None

    def leave_older(self, session_ids: Iterable[str], *, outputs: bool = False) -> None:
        """Remove the index of another version if it has one of these sessions; with `outputs`, one's outputs."""
        ids = json.encode([*session_ids]).decode()
        if self._older is None or ids == "[]":
            return
        ask = "SELECT 1 FROM sessions WHERE session_id IN (SELECT value FROM json_each(?))"
        if outputs:
            has = "SELECT 1 FROM entries WHERE entries.number = sessions.number AND part = 3"
            ask += f" AND EXISTS ({has})"
        if self._of_older(lambda connection: connection.execute(ask, (ids,)).fetchone(), (1,)):
            self._remove_older(self._older)

    def keep_older_of(self, session_ids: Set[str]) -> None:
        """Remove the index of another version if it has a session besides these."""
        if self._older is not None:
            named = "SELECT session_id FROM sessions"
            none: list[tuple[str]] = []
            found = self._of_older(lambda connection: connection.execute(named).fetchall(), none)
            if not {one for (one,) in found} <= session_ids:
                self._remove_older(self._older)

    def _remove_older(self, path: Path) -> None:
        self._older = None
        try:
            remove_files(path)
        except OSError as error:
            text = f"{path} cannot be removed: {error.strerror}"
            raise StorageError(text, errno="EIO", path=str(path)) from error

    def _of_older(self, read: Callable[[sqlite3.Connection], T], usual: T) -> T:
        """Return what `read` reads of the index of another version; `usual` where it does not fit that."""
        if self._older is None:
            return usual
        try:
            return read_only(self._older, read)
        except (*FAILURES, OSError):
            return usual

    def drop_outputs(self, session_id: str) -> bool:
        """Remove some outputs of a session, which is to have none; return whether more are left.

        Their words leave the pages of the file with `erased`.
        """
        return self.file.use(partial(_drop_outputs, session_id=session_id))

    @property
    def leaves_words(self) -> bool:
        """True if words of removed lines may stand in the pages of the file."""
        return self._left() > 0

    def erased(self) -> Iterator[None]:
        """Overwrite the words of removed lines; yield between steps, so that other uses have their turn.

        Raises StorageError while old pages stay: the file cannot be used, or another process reads it.
        """
        count = self._left()
        if not count:
            return
        yield from self._merged()
        self.file.erase(lambda _connection: None)
        done = "UPDATE removals SET erased = max(erased, ?)"
        self.file.use(lambda connection: connection.execute(done, (count,)))

    def _merged(self) -> Iterator[None]:
        """Merge the segments of the indexes, so that removed words leave their pages; yield between steps."""
        for index in _INDEXES:
            for _ in range(_ROUNDS_MAX):
                # A negative number of pages takes all segments into the merge, a positive one goes on with it.
                if not self.file.use(partial(_merge, index=index, pages=-MERGE_PAGES)):
                    break
                yield
                while self.file.use(partial(_merge, index=index, pages=MERGE_PAGES)):
                    yield
            else:
                self.file.use(partial(_optimize, index=index))

    def size(self) -> int:
        """Return the bytes of the file that are in use."""
        return self.file.use(_size)

    def cuts(self) -> Mapping[Part, int]:
        """Return the parts of which older texts are not searched, with the times in milliseconds since 1970."""
        return {Part(part): before for part, before in self.file.use(_cuts).items()}

    def take_back(self) -> bool:
        """Forget cuts that were made under a smaller bound; return whether sessions are to be read anew then."""

        def take(connection: sqlite3.Connection) -> bool:
            found = connection.execute(
                "DELETE FROM cuts WHERE bytes_max < ? RETURNING part", (self.bytes_max,)
            ).fetchall()
            if found:
                connection.execute("UPDATE sessions SET epoch = '' WHERE is_cut")
            return bool(found)

        return self.file.use(take)

    def trimmed(self) -> Iterator[None]:
        """Remove the texts for which there is no room, the oldest outputs first; yield between steps."""
        if self.size() <= self.bytes_max:
            return
        # With some room the next texts do not begin it all over.
        goal = self.bytes_max // 10 * 9
        for part in _LEAVING:
            has_more = True
            while has_more and (excess := self.size() - goal) > 0:
                while has_more and excess > 0:
                    gone = self.file.use(partial(_leave, part=part, bytes_max=self.bytes_max))
                    has_more = gone > 0
                    # The words and places of a text take about as much as the text; merges free that.
                    excess -= 2 * gone
                    yield
                yield from self._merged()
        while self.file.use(_give_back):
            yield

    def _require_free(self) -> None:
        """Raise StorageError if the disk is almost full."""
        with suppress(OSError):
            found = os.statvfs(self._folder)
            if found.f_bavail * found.f_frsize < INDEX_FREE_BYTES:
                text = (
                    f"the disk of {self._folder} is almost full, so no more text is made searchable:"
                    f" make {INDEX_FREE_BYTES // 1024**2} MiB free"
                )
                raise StorageError(text, errno="ENOSPC", path=str(self._folder), retryable=True)

    def _left(self) -> int:
        """Return up to which removal words are to be erased; 0 where all are erased."""
        # A missing file, or something else of that name, holds no words.
        if not self.file.is_there():
            return 0
        count, erased = self.file.use(_removals)
        return count if count > erased else 0

    def purge(self, session_id: str) -> None:
        """Remove a session and erase its words from all pages of the file.

        Raises StorageError while old pages stay: the file cannot be used, or another process reads it.
        """
        self.leave_older([session_id])
        if self.file.is_there():
            self.forget([session_id])
            for _ in self.erased():
                pass

    def find(self, match: Match, choose: Choose, limit: int, filters: Filters = _ALL) -> list[Hit]:
        """Return up to `limit` entries of the sessions that are chosen, best first, with the places of their lines.

        `choose` gets ids of sessions, and returns those of which hits count. Of these hits, those come first that
        have the words with the signs inside. Titles and messages come before arguments, and these before outputs;
        of hits that are as good as each other the newer one is first.
        """
        # Before the hits, or a session that comes meanwhile would be asked for in neither index.
        newer = {*self.indexed()} if self._older is not None else set[str]()
        hits = _search(self.file.use, match, choose, limit, filters)
        if self._older is None or len(hits) == limit:
            return hits
        newer |= {found.session_id for found, _ in hits}

        def older(ids: Set[str]) -> Set[str]:
            return choose(ids - newer)

        def ask(work: Callable[[sqlite3.Connection], list[_Row]]) -> list[_Row]:
            none: list[_Row] = []
            return self._of_older(work, none)

        return hits + _search(ask, match, older, limit - len(hits), filters)


def _search(
    ask: Callable[[Callable[[sqlite3.Connection], list[_Row]]], list[_Row]],
    match: Match,
    choose: Choose,
    limit: int,
    filters: Filters,
) -> list[Hit]:
    """Return what `TextIndex.find` does, of the index that `ask` asks."""
    asked = {**structs.asdict(filters), "words": match.words, "pieces": match.pieces}
    find = _FIND_BOTH if match.words else _FIND_PIECES
    find = find if match.pieces else _FIND_WORDS
    rows_max = limit
    while True:
        rows = ask(partial(_rows_of, find=find, values=asked | {"limit": rows_max}))
        chosen = choose({session_id for _, session_id, *_ in rows})
        # Several parts of an entry may have the words, and the best one is shown.
        best: dict[tuple[str, int], tuple[_Row, str]] = {}
        among = (row for row in rows if row[1] in chosen)
        while len(best) < limit and (some := [*islice(among, limit)]):
            texts: dict[int, str] = dict(ask(partial(_texts_of, rows=[row[0] for row in some])))
            for row in some:
                # A text may have left the index meanwhile.
                text = texts.get(row[0])
                if text is not None and (not match.pieces or match.holds(indexable(text))):
                    best.setdefault((row[1], row[3]), (row, text))
        if len(best) >= limit or len(rows) < rows_max:
            hits = [_hit(row, text, match) for row, text in [*best.values()][:limit]]
            return [(found, place) for _, found, place in sorted(hits, key=itemgetter(0))]
        rows_max *= 10


def _rows_of(connection: sqlite3.Connection, find: str, values: Mapping[str, Any]) -> list[_Row]:
    return connection.execute(find, values).fetchall()


def _texts_of(connection: sqlite3.Connection, rows: Sequence[int]) -> list[_Row]:
    """Return rows of the index with their texts."""
    found = connection.execute(
        "SELECT row, text FROM entries WHERE row IN (SELECT value FROM json_each(?))",
        (json.encode(rows).decode(),),
    )
    return [(row, _unpacked(kept)) for row, kept in found]


def _version_of(path: Path) -> int | None:
    """Return the version of an index; None where no version can be read."""
    try:
        if not path.is_file():
            return None
        (found,) = read_only(
            path, lambda one: one.execute("PRAGMA user_version").fetchone(), wait=0
        )
    except (*FAILURES, OSError):
        return None
    return int(found)


def _hit(row: _Row, text: str, match: Match) -> tuple[int, Found, LinePlace | None]:
    """Return a hit behind the number of the words with signs that it lacks."""
    _, session_id, entry_id, seq, part, tool, at, size, mark = row
    said = spelled(text) if match.with_signs else ""
    lacking = sum(word not in said for word in match.with_signs)
    is_tools = part in {Part.ARGUMENTS, Part.OUTPUT}
    found = Found(
        session_id,
        entry_id,
        seq,
        snippet(text, indexable(text), match.phrases, one_line=is_tools),
        tool if is_tools else UNSET,
    )
    return lacking, found, None if at is None else LinePlace(at, size, mark)


class _Tools:
    """The tools of a session's calls: an output often names only its call."""

    def __init__(self, connection: sqlite3.Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._new: dict[int, str] = {}
        self._stored: dict[int, str] | None = None

    def call_of(self, said: Searched) -> int:
        """Return the number by which the index knows the call of a text; 0 for none."""
        return zlib.crc32(said.call.encode()) if said.part == Part.ARGUMENTS else 0

    def name_of(self, said: Searched) -> str:
        """Return the tool of a text; "" if no line before tells the tool."""
        if said.part == Part.ARGUMENTS:
            self._new[self.call_of(said)] = said.tool
        if said.tool or not said.call:
            return said.tool
        call = zlib.crc32(said.call.encode())
        return self._new.get(call) or self._earlier().get(call, "")

    def _earlier(self) -> dict[int, str]:
        if self._stored is None:
            rows = self._connection.execute(
                "SELECT call, tool FROM entries WHERE number = ? AND call", (self._number,)
            )
            self._stored = dict(rows)
        return self._stored


def _words_of(kept: object) -> str:
    return words_in(indexable(_unpacked(kept)))


def _pieces_of(kept: object) -> str:
    return pieces_in(indexable(_unpacked(kept)))


def _packed(text: str) -> str | bytes:
    said = text.encode()
    packed = zlib.compress(said)
    return packed if len(packed) < len(said) else text


def _unpacked(kept: object) -> str:
    """Return the text that was kept. Raises TypeError, ValueError for a damaged value."""
    if isinstance(kept, bytes):
        try:
            return zlib.decompress(kept).decode()
        except zlib.error as error:
            raise ValueError(error) from error
    require_types((kept,), (str,))
    return str(kept)


def _indexed(row: Sequence[Any]) -> Indexed:
    require_types(row, _MARK_TYPES)
    epoch, seq, end, chars, left_out, outputs = row
    return Indexed(epoch, seq, end, chars, bool(left_out), bool(outputs))


def _add(connection: sqlite3.Connection, added: Addition, cuts: Mapping[int, int]) -> None:
    if added.anew:
        _drop(connection, added.session_id)
    is_cut = any(line.time < cuts.get(line.said.part, 0) for line in added.texts)
    number = _number(connection, added.session_id, added.mark, is_cut=is_cut)
    tools = _Tools(connection, number)
    for line in added.texts:
        said, place, tool = line.said, line.place, tools.name_of(line.said)
        if line.time < cuts.get(said.part, 0):
            continue
        row = connection.execute(
            _ADD,
            (
                *(number, line.seq, line.entry_id, said.part, said.role),
                *(tool, tools.call_of(said), line.time),
                *((None,) * 3 if place is None else structs.astuple(place)),
                _packed(said.text),
            ),
        )
        indexed = indexable(said.text)
        for index, text in zip(_INDEXES, (words_in(indexed), pieces_in(indexed)), strict=True):
            connection.execute(
                f"INSERT INTO {index} (rowid, text) VALUES (?, ?)",  # noqa: S608 - our names
                (row.lastrowid, text),
            )


def _number(connection: sqlite3.Connection, session_id: str, mark: Indexed, *, is_cut: bool) -> int:
    row = connection.execute(
        f"INSERT INTO sessions (session_id, {_MARK}, is_cut) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
        "ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, "
        "end = excluded.end, chars = excluded.chars, left_out = excluded.left_out, "
        "outputs = excluded.outputs, is_cut = max(is_cut, excluded.is_cut) RETURNING number",
        (session_id, *structs.astuple(mark), is_cut),
    ).fetchone()
    return int(row[0])


def _drop(connection: sqlite3.Connection, session_id: str, rows_max: int = -1) -> bool:
    """Remove a session, or at most `rows_max` of its lines; return whether more are left."""
    rows = connection.execute(
        "SELECT row FROM entries WHERE number = (SELECT number FROM sessions WHERE session_id = ?) LIMIT ?",
        (session_id, rows_max),
    ).fetchall()
    _remove(connection, rows)
    if len(rows) == rows_max:
        # A session that has lost lines is current no more, whatever becomes of the next step.
        connection.execute("UPDATE sessions SET epoch = '' WHERE session_id = ?", (session_id,))
        return True
    connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
    return False


def _drop_outputs(connection: sqlite3.Connection, session_id: str) -> bool:
    found = connection.execute(
        "SELECT row, text FROM entries WHERE part = ? AND number ="
        " (SELECT number FROM sessions WHERE session_id = ?) LIMIT ?",
        (Part.OUTPUT, session_id, REMOVED_ROWS_MAX),
    ).fetchall()
    _remove(connection, [(row,) for row, _ in found])
    chars = sum(len(_unpacked(text)) for _, text in found)
    has_more = len(found) == REMOVED_ROWS_MAX
    connection.execute(
        "UPDATE sessions SET chars = max(0, chars - ?), outputs = ? WHERE session_id = ?",
        (chars, has_more, session_id),
    )
    return has_more


def _remove(connection: sqlite3.Connection, rows: Sequence[tuple[int]]) -> None:
    # An index asks its view for what it removes, so the text goes last.
    for table, column in (*((index, "rowid") for index in _INDEXES), ("entries", "row")):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", rows)  # noqa: S608 - our names
    if rows:
        connection.execute("UPDATE removals SET count = count + 1")


def _leave(connection: sqlite3.Connection, part: Part, bytes_max: int) -> int:
    """Remove the oldest texts of a part for a bound; return how many bytes they have, 0 if there are none."""
    found = connection.execute(
        "SELECT row, number, time, length(text) FROM entries WHERE part = ? ORDER BY time LIMIT ?",
        (part, REMOVED_ROWS_MAX),
    ).fetchall()
    if not found:
        return 0
    rows, numbers, times, sizes = zip(*found, strict=True)
    connection.executemany(
        "UPDATE sessions SET is_cut = 1 WHERE number = ?", [(one,) for one in {*numbers}]
    )
    _remove(connection, [(row,) for row in rows])
    connection.execute(
        "INSERT INTO cuts VALUES (?, ?, ?) ON CONFLICT (part) DO UPDATE"
        " SET before = max(before, excluded.before), bytes_max = excluded.bytes_max",
        (part, times[-1] + 1, bytes_max),
    )
    return int(sum(sizes)) + 1


def _cuts(connection: sqlite3.Connection) -> dict[int, int]:
    found = connection.execute("SELECT part, before FROM cuts").fetchall()
    for row in found:
        require_types(row, (int, int))
    return dict(found)


def _size(connection: sqlite3.Connection) -> int:
    (pages,), (free,), (size,) = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _give_back(connection: sqlite3.Connection) -> bool:
    """Give free pages back to the disk; return whether more are left."""
    connection.execute(f"PRAGMA incremental_vacuum({MERGE_PAGES})").fetchall()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (way,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    return bool(free and way)


def _removals(connection: sqlite3.Connection) -> tuple[int, int]:
    found = connection.execute("SELECT count, erased FROM removals").fetchone()
    require_types(found, (int, int))
    count, erased = found
    return count, erased


def _merge(connection: sqlite3.Connection, index: str, pages: int) -> bool:
    """Merge segments of an index, up to so many pages; return whether there was anything to merge."""
    before = connection.total_changes
    connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608
    # The command itself counts as one change.
    return connection.total_changes - before > 1


def _optimize(connection: sqlite3.Connection, index: str) -> None:
    connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608
