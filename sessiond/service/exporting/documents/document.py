"""A session as a document: JSON, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Literal, get_args

from msgspec import Struct

from sessiond.service.exporting.documents.json_document import PARTS, Part, json_document
from sessiond.service.exporting.documents.redaction import redaction
from sessiond.service.exporting.documents.source import DocumentSource, State
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress

DocumentName = Literal["json", "markdown", "html"]
DOCUMENTS: Final[tuple[DocumentName, ...]] = get_args(DocumentName)


class DocumentRequest(Struct, frozen=True):
    """Form of a document, and what it shows."""

    form: DocumentName
    parts: Collection[Part] = PARTS
    every_branch: bool = False
    redact: tuple[str, ...] = ()


def document(
    opened: OpenSession, state: State, wanted: DocumentRequest, progress: Progress
) -> Iterator[bytes]:
    """Yield the document in pieces. Raise StorageError, InvalidParams."""
    with redaction(wanted.redact) as redacted:
        source = DocumentSource(opened, state, redacted, progress)
        match wanted.form:
            case "json":
                yield from json_document(source, wanted.parts)
            case "markdown":
                # Imported here, as the page below: nothing else needs them.
                from sessiond.service.exporting.documents.markdown import markdown_document

                yield from markdown_document(source, every_branch=wanted.every_branch)
            case "html":
                from sessiond.service.exporting.documents.html import html_document

                yield from html_document(source)
