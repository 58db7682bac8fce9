"""Semantic tokens: type, role, ids and label of each line, for an editor to colour.

Law: pure but for the answers; no daemon is asked. A range costs what its own lines cost. A text above
TOKENS_CHARS_MAX is only answered by ranges, and of a longer line its first LINE_TOKENS_CHARS_MAX
characters are read.

    on the wire, five numbers a token: lines down, columns right (of the last one in that line),
    length, kind, modifiers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from anyio import to_thread
from lsprotocol import types

from sessiond.limits import LINE_TOKENS_CHARS_MAX, TOKENS_CHARS_MAX
from sessiond.lsp.features.desk import Desk
from sessiond.lsp.features.words import WordKind, words
from sessiond.lsp.text.text import Encoding, Text

_KINDS: Final[Mapping[WordKind, types.SemanticTokenTypes]] = {
    WordKind.TYPE: types.SemanticTokenTypes.Type,
    WordKind.ROLE: types.SemanticTokenTypes.Keyword,
    WordKind.ID: types.SemanticTokenTypes.Variable,
    WordKind.REFERENCE: types.SemanticTokenTypes.Parameter,
    WordKind.LABEL: types.SemanticTokenTypes.Decorator,
}
_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}
_DECLARATION: Final = 1
LEGEND: Final = types.SemanticTokensLegend(
    [kind.value for kind in _KINDS.values()], [types.SemanticTokenModifiers.Declaration.value]
)


class Change(NamedTuple):
    """Numbers from `start` on that are replaced."""

    start: int
    removed: int
    numbers: Sequence[int]


async def answer_full(
    desk: Desk, params: types.SemanticTokensParams
) -> types.SemanticTokens | None:
    """Return the tokens of a whole text that is not too long."""
    uri = params.text_document.uri
    numbers = await _numbers(desk, uri)
    return None if numbers is None else types.SemanticTokens(numbers, desk.tokens.put(uri, numbers))


async def answer_delta(
    desk: Desk, params: types.SemanticTokensDeltaParams
) -> types.SemanticTokens | types.SemanticTokensDelta | None:
    """Return what changed since an earlier answer, or the tokens of the whole text."""
    uri = params.text_document.uri
    numbers = await _numbers(desk, uri)
    if numbers is None:
        return None
    before = desk.tokens.get(uri, params.previous_result_id)
    result_id = desk.tokens.put(uri, numbers)
    if before is None:
        return types.SemanticTokens(numbers, result_id)
    found = await to_thread.run_sync(change, before, numbers)
    edit = types.SemanticTokensEdit(found.start, found.removed, found.numbers)
    edits = [edit] if found.removed or found.numbers else []
    return types.SemanticTokensDelta(edits, result_id)


async def answer_range(
    desk: Desk, params: types.SemanticTokensRangeParams
) -> types.SemanticTokens | None:
    """Return the tokens of a range of lines."""
    document = desk.editor.document(params.text_document.uri)
    if document is None:
        return None
    first, last = params.range.start.line, params.range.end.line
    return types.SemanticTokens(await to_thread.run_sync(_part, document.text.copy(), first, last))


async def _numbers(desk: Desk, uri: str) -> list[int] | None:
    """Return the tokens of a document; None if the document is not open, or too long."""
    document = desk.editor.document(uri)
    return None if document is None else await to_thread.run_sync(_whole, document.text.copy())


def _part(text: Text, first: int, last: int) -> list[int]:
    return encoded(_visible(text, first, last), text.encoding)


def _visible(text: Text, first: int, last: int) -> list[tuple[int, str]]:
    """Return lines by their numbers, up to TOKENS_CHARS_MAX characters."""
    found: list[tuple[int, str]] = []
    rest = TOKENS_CHARS_MAX
    for number in range(max(0, first), min(last, len(text) - 1) + 1):
        line = text.line(number)
        rest -= min(len(line), LINE_TOKENS_CHARS_MAX)
        if rest < 0:
            break
        found.append((number, line))
    return found


def encoded(lines: Iterable[tuple[int, str]], encoding: Encoding) -> list[int]:
    """Return the tokens of numbered lines as the protocol has them."""
    numbers: list[int] = []
    last = 0
    for number, line in lines:
        column = 0
        for start, length, kind in _words(line, encoding):
            numbers += (number - last, start - column, length, _NUMBERS[kind])
            numbers.append(_DECLARATION if kind is WordKind.ID else 0)
            last, column = number, start
    return numbers


def change(before: Sequence[int], after: Sequence[int]) -> Change:
    """Return the one replacement that makes `after` of `before`."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - start
    same = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    return Change(start, len(before) - same - start, after[start : len(after) - same])


def _words(line: str, encoding: Encoding) -> Iterator[tuple[int, int, WordKind]]:
    """Yield the words of a line in the editor's columns, each with its length."""
    at = column = 0
    for word in words(line, LINE_TOKENS_CHARS_MAX):
        column += encoding.units(line[at : word.start])
        length = encoding.units(line[word.start : word.end])
        yield column, length, word.kind
        at, column = word.end, column + length


def _whole(text: Text) -> list[int] | None:
    """Return the tokens of a text; None if the text is too long."""
    if sum(map(len, text)) > TOKENS_CHARS_MAX:
        return None
    whole = enumerate(line.rstrip("\r\n") for line in text)
    return encoded(whole, text.encoding)
