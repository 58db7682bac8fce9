"""The conversation as Markdown, for people and for other programs.

Law: a message's own text stays as its author wrote it, because that is Markdown. A text that leaves a
fence open or holds HTML would swallow what follows, or hide a part of itself: it stands between fences,
longer than any fence inside, as everything else does that is more than a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sessiond.service.exporting.documents.pages import (
    TEMPLATES,
    encoded,
    facts_of,
    page_branches,
    title_of,
    walked,
)
from sessiond.service.exporting.documents.source import DocumentSource

if TYPE_CHECKING:
    from jinja2 import Template
    from markdown_it import MarkdownIt

# Marks without which a text can neither open a fence nor hold HTML.
_MARKS: Final = re.compile(r"```|~~~|<[A-Za-z/!?]")
# A longer text with such a mark is not parsed.
_PARSED_CHARS: Final = 65_536
_BEHIND: Final = "\n\n## behind\n"
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~&])")


def markdown_document(source: DocumentSource, *, every_branch: bool) -> Iterator[bytes]:
    """Yield the conversation in pieces. Raise StorageError, InvalidParams."""
    return encoded(
        _template().generate(
            title=_in_line(title_of(source)),
            facts=[(name, _in_line(value)) for name, value in facts_of(source)],
            branches=page_branches(source, walked(source, every_branch=every_branch)),
        )
    )


@cache
def _template() -> Template:
    # Imported here: a daemon that is never asked for a page does not load it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown is no HTML: what is special in a line of Markdown is escaped by the filters.
    environment = Environment(  # noqa: S701
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters.update(in_line=_in_line, in_code=_in_code, fence=_fence)
    environment.tests.update(whole_markdown=_is_whole)
    return environment.get_template("conversation.md")


def _is_whole(value: Any) -> bool:
    """Return whether a text is Markdown without HTML that ends with the text."""
    if _MARKS.search(value) is None:
        return True
    if len(value) > _PARSED_CHARS:
        return False
    tokens = _parser().parse(value + _BEHIND)
    inner = [child for token in tokens for child in token.children or ()]
    if any(token.type in {"html_block", "html_inline"} for token in (*tokens, *inner)):
        return False
    # The heading behind the text is one only where the text has left nothing open.
    return [token.type for token in tokens[-3:]] == ["heading_open", "inline", "heading_close"]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt()


def _in_line(text: str) -> str:
    """Return the text in a line in which no character is a mark of Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _in_code(text: str) -> str:
    """Return the text for a code span, which no backtick may end."""
    return " ".join(text.split()).replace("`", "'")


def _fence(text: str) -> str:
    """Return a fence for the text that is longer than any run of backticks inside."""
    return "`" * (1 + max(map(len, re.findall("`{3,}", text)), default=2))
