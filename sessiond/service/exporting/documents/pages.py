"""Contents of Markdown and HTML pages: the facts of a session, then its entries by branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from sessiond.service.exporting.documents.shown import Shown, anchor_of, show
from sessiond.service.exporting.documents.source import DocumentSource
from sessiond.service.exporting.documents.visible import one_line
from sessiond.service.exporting.documents.walk import Branch, branches, path_alone

TEMPLATES: Final = Path(__file__).with_name("templates")
_TITLE_CHARS: Final = 200
_FACT_CHARS: Final = 500
_PIECE_CHARS: Final = 256 * 1024


class PageBranch(Struct, frozen=True):
    """Branch of a page. `entries` is read while the page is written, so it is iterated once."""

    number: int
    above: int
    depth: int
    length: int
    active: bool
    fork: str
    """Id of the entry below which the branch begins; "" at a root."""
    fork_anchor: str
    entries: Iterator[Shown]


def walked(source: DocumentSource, *, every_branch: bool) -> list[Branch]:
    """Return the branches to show, from the index alone but for the times at forks."""
    session, state = source.session, source.state
    if every_branch:
        return branches(session, state.upto, state.leaf, source.opened.line_time)
    return path_alone(session, state.leaf)


def page_branches(source: DocumentSource, found: list[Branch]) -> Iterator[PageBranch]:
    """Yield the branches with their entries, in one pass over the lines."""
    labels = source.labels()
    order = (seq for branch in found for seq in branch.seqs)
    lines = source.lines(order)

    def shown(seq: int, line: bytes) -> Shown:
        return show(source, seq, line, labels.get(seq, ""))

    def entries(count: int) -> Iterator[Shown]:
        for _ in range(count):
            # No name here holds the line, which may be long, while the entry is written.
            yield shown(*next(lines))

    for branch in found:
        yield PageBranch(
            number=branch.number,
            above=branch.above,
            depth=branch.depth,
            length=len(branch.seqs),
            active=branch.active,
            fork=one_line(source.session.id_of(branch.fork) or "", _TITLE_CHARS),
            fork_anchor=anchor_of(source, branch.fork) if branch.fork else "",
            entries=entries(len(branch.seqs)),
        )


def encoded(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield the texts of a page as bytes: short texts together, a long one in parts."""
    held: list[str] = []
    chars = 0
    for text in texts:
        for at in range(0, len(text), _PIECE_CHARS):
            part = text[at : at + _PIECE_CHARS]
            held.append(part)
            chars += len(part)
            if chars >= _PIECE_CHARS:
                yield "".join(held).encode()
                held, chars = [], 0
    yield "".join(held).encode()


def title_of(source: DocumentSource) -> str:
    """Return the title of the page: that of the session, else its first words, else its id."""
    info = source.state.info
    said = source.value([info.title or info.first_message or info.id])[0]
    return one_line(said, _TITLE_CHARS)


def facts_of(source: DocumentSource) -> list[tuple[str, str]]:
    """Return the facts that stand above the conversation, each in one line."""
    info: Mapping[str, Any] = source.value(source.state.info)
    usage = info["usage"]
    told = {
        "session": info["id"],
        "folder": info["cwd"],
        "agent": info["agent"],
        "model": info["model"],
        "tags": ", ".join(info["tags"]),
        "status": info["status"],
        "created": info["created_at"],
        "updated": info["updated_at"],
        "messages": f"{info['message_count']} on the path, {info['message_total']} in all",
        "tokens": f"{usage['total_tokens']}" if usage else None,
        "cost": f"{usage['cost']:.4f} US dollars" if usage and usage["cost"] else None,
        "format": info["dialect"],
    }
    return [(name, one_line(str(value), _FACT_CHARS)) for name, value in told.items() if value]
