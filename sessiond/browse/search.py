"""The search: words, and the entries that hold them, in one session or in all sessions.

A word like `tool:Bash` is a filter: role, tool, project or since. In quotes it is a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import anyio
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from sessiond.browse.bars import Key
from sessiond.browse.entry import EntryView
from sessiond.browse.rows import Line, Part, Rows
from sessiond.browse.view import View
from sessiond.browse.words import line_of, short_id
from sessiond.by_now import by_now
from sessiond.moments import MOMENT_HINT, moment
from sessiond.visible import counted, files_read, hit_text, unread, unsearched
from sessiond_client import Client
from sessiond_client.generated.results import Hit, SearchAnswer

_HITS_MAX: Final = 500
# Each answer reads the lines of its hits again.
_REST_SECONDS: Final = 0.5
_NO_HIT: Final = "no entry holds all words; the last letters of a word may be missing"
_FILTER: Final = r'(?<!\S)(role|tool|project|since):([^\s"]+)'


class SearchView(View):
    """A line for words, and below it the hits, best first."""

    KEYS: ClassVar[Sequence[Key]] = (
        *(("Enter", "search, then open"), ("Tab", "one or all sessions"), ("Esc", "back")),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "scope", "scope", show=False, priority=True),
        Binding("down", "to_hits", "hits", show=False),
        Binding("slash", "to_words", "words", show=False),
    ]
    DEFAULT_CSS = """
    SearchView Input { padding: 0 1; text-style: underline; }
    """

    def __init__(self, session: tuple[str, str | None] | None) -> None:
        """Search a session, given by its id and its project, or all sessions."""
        super().__init__()
        self._words = Input(
            placeholder='words, a "phrase", role: tool: project: since:', compact=True
        )
        self.rows = Rows[Hit](self._line)
        self.is_one = session is not None
        self._session = session
        self._query = ""
        self._search_number = 0

    def body(self) -> Iterator[Widget]:
        """Yield the line and the hits."""
        yield self._words
        yield self.rows

    def on_mount(self) -> None:
        """Begin in the line."""
        self._show_title("")
        self._words.focus()

    def session_of_view(self) -> tuple[str, str | None] | None:
        """Return the session that is searched."""
        return self._session

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search."""
        self._query = event.value.strip()
        try:
            words, _ = _asked(self._query)
        except (ValueError, OverflowError):
            self.say(f"since: {MOMENT_HINT}")
            return
        if any(character.isalnum() or not character.isascii() for character in words):
            self.act(self._search, "searching …")
        else:
            self.say("type a word to search for")

    def on_rows_chosen(self) -> None:
        """Open the hit: the entry, or the session whose title or folder was found."""
        hit = self.rows.current
        if hit is None:
            return
        if hit.entry_id is None:
            self.browser.show_tree(hit.session_id)
        else:
            self.browser.open(EntryView(hit.session_id, hit.entry_id))

    def action_scope(self) -> None:
        """Search all sessions, or the one session again."""
        if self._session is None:
            self.say("open a session first to search in one session")
            return
        self.is_one = not self.is_one
        self._show_title("")
        if self._query:
            self.act(self._search, "searching …")

    def action_to_hits(self) -> None:
        """Go from the line to the hits."""
        if self.rows.items:
            self.rows.focus()

    def action_to_words(self) -> None:
        """Go back to the line."""
        self._words.focus()

    async def _search(self, client: Client) -> None:
        """Show the hits in what is read by now, and ask again until all sessions are read."""
        self._search_number += 1
        number, query = self._search_number, self._query
        words, filters = _asked(query)
        if self._session is not None and self.is_one:
            filters["session_id"] = self._session[0]
        filters |= {"query": words, "limit": _HITS_MAX}
        has_hits = False

        def is_wanted() -> bool:
            return number == self._search_number and self.is_attached

        while is_wanted():
            found = await by_now(client, SearchAnswer, "session/search", **filters)
            if not is_wanted():
                return
            self._show(found)
            # Where other words are being typed, the cursor stays in the line.
            if found.hits and not has_hits and self._words.value.strip() == query:
                self.rows.focus()
            has_hits = bool(found.hits)
            if found.looking is None:
                for one in found.unsearched:
                    self.browser.say(f"not searched: {unsearched(one.texts, one.before)}")
                if not has_hits:
                    self.browser.say(_NO_HIT)
                return
            await anyio.sleep(_REST_SECONDS)

    def _show(self, found: SearchAnswer) -> None:
        """Show hits, and how far the reading is; the cursor stays at its hit unless it is the first."""
        hits, looking, current = found.hits, found.looking, self.rows.current
        kept = None if current is None or self.rows.cursor == 0 else _place(current)
        self.rows.show(hits, next((at for at, hit in enumerate(hits) if _place(hit) == kept), 0))
        is_cut = len(hits) == _HITS_MAX
        said = counted(len(hits), "hit", has_more=is_cut or looking is not None)
        if looking is not None and looking.total is not None:
            said += f", {files_read(looking.done, looking.total)}"
        self._show_title(said + unread(len(found.unreadable)))

    def _line(self, hit: Hit) -> Line:
        said = hit_text(hit.snippet, hit.tool, checked=hit.checked is not False)
        left = [Part(f" {line_of(said)}")]
        return Line(left, [Part(f"{short_id(hit.session_id)} {hit.seq:>6} ", "cyan")])

    def _show_title(self, count: str) -> None:
        one = self._session
        where = f"session {short_id(one[0])}" if one and self.is_one else "all sessions"
        self.title_is(f"Search in {where}", count)


def _place(hit: Hit) -> tuple[str, str | None]:
    return hit.session_id, hit.entry_id


def _asked(query: str) -> tuple[str, dict[str, Any]]:
    """Return the words of a query, and its filters. Raises ValueError, OverflowError."""
    filters: dict[str, Any] = dict(re.findall(_FILTER, query))
    if "since" in filters:
        filters["since"] = moment(filters["since"])
    if "project" in filters:
        filters["cwd"] = str(Path(filters.pop("project")).expanduser().absolute())
    return re.sub(_FILTER, " ", query).strip(), filters
