"""Features that the server offers, each with the module that answers; `commands` has the commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from lsprotocol import types

from sessiond.lsp.features import fixing, folding, hints, lenses, references, symbols, tokens
from sessiond.lsp.features.desk import Desk


class Feature(NamedTuple):
    """A request that the server answers, and the options under which the editor is offered it."""

    method: str
    answer: Callable[[Desk, Any], Awaitable[Any]]
    options: Any = None


FEATURES: Final = (
    Feature(types.TEXT_DOCUMENT_FOLDING_RANGE, folding.answer),
    Feature(types.TEXT_DOCUMENT_REFERENCES, references.answer),
    Feature(types.TEXT_DOCUMENT_CODE_LENS, lenses.answer),
    Feature(types.TEXT_DOCUMENT_INLAY_HINT, hints.answer),
    Feature(types.WORKSPACE_SYMBOL, symbols.answer, symbols.OPTIONS),
    Feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, tokens.answer_full, tokens.LEGEND),
    Feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, tokens.answer_delta, tokens.LEGEND),
    Feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, tokens.answer_range, tokens.LEGEND),
    Feature(types.TEXT_DOCUMENT_CODE_ACTION, fixing.answer, fixing.OPTIONS),
)
