"""Documents of sessions in memory, and pages as a parser sees them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.exporting.documents.document import DocumentRequest, document
from sessiond.service.exporting.documents.source import State
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import head_infos
from tests.unit.in_memory import NATIVE_HEADER, opened

__all__ = ["Page", "made", "native"]


def native(*entries: dict[str, Any], **header: Any) -> OpenSession:
    """Return a native session of these entries."""
    return opened(list(entries), NATIVE_HEADER | header)


def made(session: OpenSession, form: Any, leaf: str | None = None, **wanted: Any) -> str:
    """Return the document of a session, at the leaf of main or at another one."""
    index = session.session
    at = index.heads["main"].leaf if leaf is None else index.ids[leaf]
    state = State(index.seq, at, head_infos(index), session.whole())
    return b"".join(document(session, state, DocumentRequest(form, **wanted), NO_PROGRESS)).decode()


class Page(HTMLParser):
    """Elements and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._inside: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] in {"script", "style"}:
            self.raw[self._inside[-1]] = self.raw.get(self._inside[-1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """Return all text of the page, without its script and style."""
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element with this name."""
        return [attributes for name, attributes in self.elements if name == tag]
