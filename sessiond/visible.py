r"""Texts that a screen may show: no character acts on the screen or on the reading order.

Law: what a person sees comes from any program and any file. There is one list of the characters that act,
for terminals, pages and previews alike. Counts have their nouns in one way, too, and a repair,
a look at files and a hit of a search their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

ACTING: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
)
"""Characters that act, as in the brackets of a regular expression.

C0 without tab and line feed, DEL, C1, half characters, line and paragraph separators, the BOM, and the
marks, embeddings, overrides and isolates of writing direction.
"""

# Compiled at the first use: a start of the daemon shows nothing.
_ACTING: Final = f"[{ACTING}]"


def spelled_out(text: str) -> str:
    r"""Return the text with each character that acts written out, as in JSON: `\u001b`.

    So a JSON document keeps its meaning.
    """
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_ACTING, lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(path: object) -> str:
    """Return a path, or its text, as valid text; bytes that are not UTF-8 become U+FFFD."""
    return str(path).encode(errors="surrogateescape").decode(errors="replace")


def counted(count: int, noun: str, *, has_more: bool = False) -> str:
    """Return a count with its noun: "1 hit", "2 hits", "500+ hits", "2 entries"."""
    if count == 1 and not has_more:
        return f"1 {noun}"
    return f"{count:,}{'+' if has_more else ''} {plural(noun)}"


def files_read(done: int, total: int) -> str:
    """Return how far a look at files is, in words."""
    return f"{done} of {counted(total, 'file')} read"


def unsearched(texts: str, before: str) -> str:
    """Return what a search index has no room for, in words."""
    return f"{texts} from before {before[:10]}"


def unread(count: int) -> str:
    """Return how many files cannot be read as sessions, as the end of a title; "" for no file."""
    return f", {count:,} unreadable" if count else ""


def index_state(index: Mapping[str, Any] | None) -> str | None:
    """Return what a daemon does with its search index, in words; None for nothing, or an older daemon."""
    if index is None:
        return None
    if (problem := index["problem"]) is not None:
        return f"not current: {problem}"
    said = [f"not searched: {unsearched(**one)}" for one in index.get("unsearched", ())]
    if (total := index["to_read"]) is not None:
        said.insert(0, files_read(index["read"], total))
    return "; ".join(said) or None


def hit_text(snippet: str, tool: str | None, *, checked: bool) -> str:
    """Return the snippet of a hit, behind what tells where and how surely the words stand there."""
    state = "" if checked else "(not checked) "
    return f"{state}[{tool}] {snippet}" if tool else f"{state}{snippet}"


def repaired(dropped: str, recovered: int, reparented: int, moved: int) -> str:
    """Return what a repair does, in words; `dropped` names the lines left out, and is empty for none."""
    said: list[str] = []
    if dropped:
        but = f" but for {counted(recovered, 'whole entry')} on them" if recovered else ""
        said.append(f"{dropped} left out{but}")
    if reparented:
        said.append(f"{counted(reparented, 'entry')} put below another parent")
    if moved:
        said.append(f"{counted(moved, 'entry')} put behind the parent")
    return ", ".join(said)


def plural(noun: str) -> str:
    """Return the plural of a noun: "hits", "entries"."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
