"""The session as one page for a browser: messages, branches, search and links, without a network.

Law: nothing of a session is code of the page. Every text is escaped by the templates; Markdown is
rendered without raw HTML, images and links but http, https and mailto; and the page's policy lets
the browser run and load only the page's own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sessiond.limits import MARKDOWN_CHARS_MAX
from sessiond.service.exporting.documents.pages import (
    TEMPLATES,
    PageBranch,
    encoded,
    facts_of,
    page_branches,
    title_of,
    walked,
)
from sessiond.service.exporting.documents.shown import Shown
from sessiond.service.exporting.documents.source import DocumentSource
from sessiond.service.exporting.documents.visible import one_line

if TYPE_CHECKING:
    from jinja2 import Template
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markupsafe import Markup

_LINKS: Final = ("http://", "https://", "mailto:")
_GLIMPSE_CHARS: Final = 100
_OUTLINED: Final = frozenset({"user", "summary"})
"""Entries that the outline shows, besides labelled ones."""


def html_document(source: DocumentSource) -> Iterator[bytes]:
    """Yield the page in pieces. Raise StorageError, InvalidParams."""
    found = walked(source, every_branch=True)
    forks: dict[int, list[dict[str, int]]] = {}
    for branch in found:
        if branch.fork:
            forks.setdefault(branch.fork, []).append(
                {"number": branch.number, "length": len(branch.seqs)}
            )
    outline: list[dict[str, Any]] = []
    style, script = _asset("page.css"), _asset("page.js")
    pieces = _template().generate(
        policy=_policy(style, script),
        style=_markup(style),
        script=_markup(script),
        title=title_of(source),
        facts=facts_of(source),
        branches=_outlined(page_branches(source, found), outline),
        outline=outline,
        forks=forks,
        markdown_chars=MARKDOWN_CHARS_MAX,
        count=sum(len(branch.seqs) for branch in found),
    )
    return encoded(pieces)


def _outlined(found: Iterator[PageBranch], outline: list[dict[str, Any]]) -> Iterator[PageBranch]:
    """Yield the branches, and note each row of the outline as its entry goes by."""
    from msgspec.structs import replace

    def noted(branch: PageBranch) -> Iterator[Shown]:
        depth = min(branch.depth, 8)
        if branch.number:
            outline.append({"branch": branch.number, "length": branch.length, "depth": depth})
        for entry in branch.entries:
            if entry.word in _OUTLINED or entry.label:
                # The row stays to the end of the page, and needs none of the texts.
                row = replace(entry, parts=[], notes=[])
                outline.append({"entry": row, "depth": depth, "branch": branch.number})
            yield entry

    for branch in found:
        yield replace(branch, entries=noted(branch))


def _policy(style: str, script: str) -> str:
    """Return the policy by which a browser loads nothing and runs only this script."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8")


def _markup(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - a file of this package, nothing of a session


@cache
def _template() -> Template:
    # Imported here: a daemon that is never asked for a page does not load it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = rendered
    environment.filters["glimpse"] = _glimpse
    return environment.get_template("page.html")


def _glimpse(text: str) -> str:
    return one_line(text, _GLIMPSE_CHARS)


def rendered(text: str) -> Markup:
    """Return Markdown as HTML."""
    html: str = _markdown().render(text)
    return _markup(html)


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    found = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    found.enable(["table", "strikethrough"])
    found.validateLink = _is_link  # type: ignore[method-assign,assignment]
    found.add_render_rule("image", _picture)
    found.add_render_rule("link_open", _link)
    return found


def _is_link(address: str) -> bool:
    """Return whether the page makes a link of an address: a browser follows it only when asked."""
    return address.strip().lower().startswith(_LINKS)


def _picture(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Return a picture's text and address: the page loads no picture."""
    from markupsafe import escape

    token = tokens[index]
    return f'<span class="picture">{escape(token.content)} ({escape(token.attrGet("src") or "")})</span>'


def _link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    if not tokens[index].attrGet("href"):
        # `[]()` is a link to the parser, and an empty address would be the page itself.
        tokens[index].attrs.pop("href", None)
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    opened: str = self.renderToken(tokens, index, options, env)
    return opened
