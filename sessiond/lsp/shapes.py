"""Findings, symbols and spans in the spelling of the language server protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lsprotocol import types

from sessiond.lsp.editor import Hovered, Span
from sessiond.lsp.findings import Finding, Severity
from sessiond.lsp.outline import Symbol, SymbolType
from sessiond.lsp.text.text import Encoding, Text

ENCODINGS: Final[Mapping[types.PositionEncodingKind, Encoding]] = {
    types.PositionEncodingKind.Utf8: Encoding("utf-8", 1),
    types.PositionEncodingKind.Utf16: Encoding("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: Encoding("utf-32-le", 4),
}

_SEVERITIES: Final[Mapping[Severity, types.DiagnosticSeverity]] = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}

_KINDS: Final[Mapping[SymbolType, types.SymbolKind]] = {
    SymbolType.HEADER: types.SymbolKind.File,
    SymbolType.BRANCH: types.SymbolKind.Namespace,
    SymbolType.USER: types.SymbolKind.Function,
    SymbolType.ANSWER: types.SymbolKind.Method,
    SymbolType.TOOL: types.SymbolKind.Event,
    SymbolType.COMPACTION: types.SymbolKind.Package,
    SymbolType.SUMMARY: types.SymbolKind.Interface,
    SymbolType.SETTING: types.SymbolKind.Property,
    SymbolType.OTHER: types.SymbolKind.Object,
    SymbolType.REST: types.SymbolKind.Null,
}


def diagnostics(found: Iterable[Finding]) -> list[types.Diagnostic]:
    """Return the findings as diagnostics."""
    return [
        types.Diagnostic(
            range=_range(Span(one.line, one.start, one.end)),
            severity=_SEVERITIES[one.severity],
            code=one.code,
            source="sessiond",
            message=one.message,
        )
        for one in found
    ]


def tree_symbols(symbols: Iterable[Symbol], text: Text) -> list[types.DocumentSymbol]:
    """Return symbols for an editor that shows a tree.

    Like the outline at most three levels deep.
    """
    return [
        types.DocumentSymbol(
            name=one.name,
            detail=one.detail,
            kind=_KINDS[one.type],
            range=_lines(one.line, one.last_line, text),
            selection_range=_lines(one.line, one.line, text),
            children=tree_symbols(one.children, text),
        )
        for one in symbols
    ]


def flat_symbols(symbols: Iterable[Symbol], text: Text, uri: str) -> list[types.SymbolInformation]:
    """Return symbols for an editor that shows a list."""
    return [
        types.SymbolInformation(
            name=one.name,
            kind=_KINDS[one.type],
            location=types.Location(uri, _lines(one.line, one.last_line, text)),
            container_name=container,
        )
        for one, container in _walk(symbols, None)
    ]


def hover(found: Hovered) -> types.Hover:
    """Return a hover as plain text."""
    return types.Hover(
        contents=types.MarkupContent(types.MarkupKind.PlainText, found.text),
        range=None if found.span is None else _range(found.span),
    )


def location(uri: str, span: Span) -> types.Location:
    """Return a span of a document as a location."""
    return types.Location(uri, _range(span))


def _walk(symbols: Iterable[Symbol], container: str | None) -> Iterator[tuple[Symbol, str | None]]:
    for one in symbols:
        yield one, container
        yield from _walk(one.children, one.name)


def _range(span: Span) -> types.Range:
    start, end = types.Position(span.line, span.start), types.Position(span.line, span.end)
    return types.Range(start, end)


def _lines(first: int, last: int, text: Text) -> types.Range:
    end = types.Position(last, text.encoding.units(text.line(last)))
    return types.Range(types.Position(first, 0), end)
