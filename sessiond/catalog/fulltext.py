"""The full-text index over the lines of sessions, in `search.sqlite`.

Rule 1: the index is never the truth. A session's rows are valid for the recorded epoch and up to
the recorded line. Deleting the file costs reading the sessions again.
Rule 2: a removed word leaves the pages of the file with `erased`, not before: FTS5 only notes that it is removed
until its segments are merged. `removals` says how many removals there were, and up to which one they are erased.
Rule 3: words and pieces are those of `indexable`. SQLite keeps of the words their places, and of the pieces only the
rows; with their places they would be twice as large. It asks the views `said` and `cut` for what is removed; the views
make it from what was said, which is compressed.
Blocking: any worker thread may call a method; a lock lets one call run at a time.
"""

from __future__ import annotations

import sqlite3
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, json, structs

from sessiond.catalog.guarded import GuardedDatabase, Tables, require_types
from sessiond.catalog.matching import Match
from sessiond.catalog.pieces import indexable, pieces_in, spelled, words_in
from sessiond.catalog.snippets import snippet
from sessiond.limits import MERGE_PAGES, REMOVED_ROWS_MAX
from sessiond.model.searched import Part, Searched

__all__ = ["Filters", "Found", "Hit", "Indexed", "LinePlace", "Text", "TextIndex"]

_SCHEMA: Final = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    end INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    left_out INTEGER NOT NULL
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
_VERSION: Final = 60_000 + int(unicodedata.unidata_version.replace(".", ""))
_TABLES: Final = Tables(
    "search index",
    version=_VERSION,
    make=lambda _none: _SCHEMA,
    temporary="PRAGMA trusted_schema = ON;"  # or a view could have no function of ours
    "CREATE TEMP TABLE IF NOT EXISTS wanted (number INTEGER PRIMARY KEY);",
    arrive=_bring_functions,
)
_MARK: Final = "epoch, seq, end, chars, left_out"
_MARK_TYPES: Final = (str, int, int, int, int)
# A round ends early where lines were added meanwhile.
_ROUNDS_MAX: Final = 4
_ADD: Final = """
INSERT INTO entries (number, seq, entry_id, part, role, tool, call, time, at, size, mark, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIND: Final = f"""
SELECT sessions.session_id, entries.entry_id, entries.seq, part, tool, at, size, mark, entries.text
FROM {{words}}
JOIN entries ON entries.row = {{words}}.rowid
JOIN wanted ON wanted.number = entries.number
JOIN sessions ON sessions.number = entries.number
WHERE {{matches}}
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
    it has at least so many.
    """

    epoch: str
    seq: int
    end: int
    chars: int = 0
    left_out: bool = False


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
        self.file = GuardedDatabase(path, _TABLES, on_trouble)

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

    def put(self, session_id: str, mark: Indexed, texts: Sequence[Text], *, anew: bool) -> None:
        """Add lines of a session and record the indexed part, in one transaction.

        With `anew` the earlier lines of the session are removed first.
        """

        def store(connection: sqlite3.Connection) -> None:
            if anew:
                _drop(connection, session_id)
            number = _number(connection, session_id, mark)
            tools = _Tools(connection, number)
            for line in texts:
                said, place = line.said, line.place
                row = connection.execute(
                    _ADD,
                    (
                        *(number, line.seq, line.entry_id, said.part, said.role),
                        *(tools.name_of(said), tools.call_of(said), line.time),
                        *((None,) * 3 if place is None else structs.astuple(place)),
                        _packed(said.text),
                    ),
                )
                indexed = indexable(said.text)
                for index, text in zip(
                    _INDEXES, (words_in(indexed), pieces_in(indexed)), strict=True
                ):
                    connection.execute(
                        f"INSERT INTO {index} (rowid, text) VALUES (?, ?)",  # noqa: S608 - our names
                        (row.lastrowid, text),
                    )

        self.file.use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove sessions from the index, in steps between which other uses have their turn.

        Their words leave the pages of the file with `erased`.
        """
        for session_id in session_ids:
            while self.file.use(partial(_drop, session_id=session_id, rows_max=REMOVED_ROWS_MAX)):
                pass

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
        self.file.erase(lambda _connection: None)
        done = "UPDATE removals SET erased = max(erased, ?)"
        self.file.use(lambda connection: connection.execute(done, (count,)))

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
        if self.file.is_there():
            self.forget([session_id])
            for _ in self.erased():
                pass

    def find(
        self, match: Match, wanted: Iterable[str], limit: int, filters: Filters = _ALL
    ) -> list[Hit]:
        """Return up to `limit` entries in the sessions `wanted`, best first, with the places of their lines.

        Of these hits, those come first that have the words with the signs inside. Titles and messages come
        before arguments, and these before outputs; of hits that are as good as each other the newer one is first.
        """

        ids = json.encode(tuple(wanted)).decode()

        def search(connection: sqlite3.Connection) -> list[Hit]:
            connection.execute("DELETE FROM wanted")
            connection.execute(
                "INSERT INTO wanted SELECT number FROM sessions"
                " WHERE session_id IN (SELECT value FROM json_each(?))",
                (ids,),
            )
            asked = {**structs.asdict(filters), "words": match.words, "pieces": match.pieces}
            find = _FIND_BOTH if match.words else _FIND_PIECES
            find = find if match.pieces else _FIND_WORDS
            rows_max = limit
            while True:
                rows = connection.execute(find, asked | {"limit": rows_max}).fetchall()
                # Several parts of an entry may have the words, and the best one is shown.
                best: dict[tuple[str, int], Sequence[Any]] = {}
                for row in rows:
                    if not match.pieces or match.holds(indexable(_unpacked(row[-1]))):
                        best.setdefault((row[0], row[2]), row)
                if len(best) >= limit or len(rows) < rows_max:
                    hits = [_hit(row, match) for row in [*best.values()][:limit]]
                    return [(found, place) for _, found, place in sorted(hits, key=itemgetter(0))]
                rows_max *= 2

        return self.file.use(search)


def _hit(row: Sequence[Any], match: Match) -> tuple[int, Found, LinePlace | None]:
    """Return a hit behind the number of the words with signs that it lacks."""
    session_id, entry_id, seq, part, tool, at, size, mark, kept = row
    text = _unpacked(kept)
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
    epoch, seq, end, chars, left_out = row
    return Indexed(epoch, seq, end, chars, bool(left_out))


def _number(connection: sqlite3.Connection, session_id: str, mark: Indexed) -> int:
    row = connection.execute(
        f"INSERT INTO sessions (session_id, {_MARK}) VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608
        "ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, "
        "end = excluded.end, chars = excluded.chars, left_out = excluded.left_out RETURNING number",
        (session_id, mark.epoch, mark.seq, mark.end, mark.chars, mark.left_out),
    ).fetchone()
    return int(row[0])


def _drop(connection: sqlite3.Connection, session_id: str, rows_max: int = -1) -> bool:
    """Remove a session, or at most `rows_max` of its lines; return whether more are left."""
    rows = connection.execute(
        "SELECT row FROM entries WHERE number = (SELECT number FROM sessions WHERE session_id = ?) LIMIT ?",
        (session_id, rows_max),
    ).fetchall()
    # An index asks its view for what it removes, so the text goes last.
    for table, column in (*((index, "rowid") for index in _INDEXES), ("entries", "row")):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", rows)  # noqa: S608 - our names
    if rows:
        connection.execute("UPDATE removals SET count = count + 1")
    if len(rows) == rows_max:
        # A session that has lost lines is current no more, whatever becomes of the next step.
        connection.execute("UPDATE sessions SET epoch = '' WHERE session_id = ?", (session_id,))
        return True
    connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
    return False


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
