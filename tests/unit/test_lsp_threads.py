"""Work of the language server beside its event loop: all that grows with a document."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lsprotocol import types

from sessiond.lsp import answers
from sessiond.lsp import document as documents
from sessiond.lsp import editor as editors
from sessiond.lsp import server as servers
from sessiond.lsp.answers import Encoded
from sessiond.lsp.features import folding, lenses, references, tokens
from sessiond.lsp.incoming import Incoming
from sessiond_client.results import EntryPage
from sessiond_client.tree_results import TreeNode, TreePage

pytestmark = pytest.mark.both_loops

URI = "file:///x.jsonl"
START = types.Position(1, 0)
COUNT = 3_000
TEXT = "{}\n" + "".join(
    f'{{"type":"message","id":"e{seq}","parent_id":"e{seq - 1}"}}\n' for seq in range(1, COUNT)
)


class FakeClient:
    """A daemon's answers about one session; `Link` in one."""

    async def client(self) -> FakeClient:
        return self

    def want(self) -> None:
        pass

    async def call(self, _: str, **__: Any) -> Mapping[str, Any]:
        return {"session": {"id": "s1", "seq": COUNT, "title": "T"}}

    async def tree(self, _: str, **__: Any) -> TreePage:
        nodes = [TreeNode(f"e{seq}", f"e{seq - 1}", seq, "message") for seq in range(1, COUNT)]
        return TreePage(nodes=nodes)

    async def entries(self, _: str, **__: Any) -> EntryPage:
        return EntryPage(entries=[])

    async def heads(self, _: str) -> list[Any]:
        return []

    async def entry(self, _: str, entry_id: str) -> Any:
        return Stored({"id": entry_id, "type": "message"})


class Stored:
    """An entry's answer."""

    seq, children, label = 1, 0, None

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry


@pytest.fixture
def anyio_backend() -> str:
    """pygls knows asyncio only."""
    return "asyncio"


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Record which long work was done on the event loop."""
    seen: dict[str, bool] = {}

    def watch(module: ModuleType, name: str) -> None:
        work: Callable[..., Any] = getattr(module, name)

        def run(*arguments: Any, **options: Any) -> Any:
            on_loop = threading.current_thread() is threading.main_thread()
            seen[name] = seen.get(name, False) or on_loop
            return work(*arguments, **options)

        monkeypatch.setattr(module, name, run)

    for name in ("outline", "references", "own_id"):
        watch(editors, name)
    for name in ("tree_symbols", "flat_symbols"):
        watch(servers, name)
    for module, name in (
        (answers, "encoded"),
        (documents, "find_places"),
        (folding, "folds"),
        (references, "references_to"),
        (lenses, "lenses"),
        (tokens, "encoded"),
    ):
        watch(module, name)
    return seen


@pytest.fixture(params=[True, False], ids=["trees", "lists"])
async def ask(request: pytest.FixtureRequest) -> Callable[[str, Any], Any]:
    """Return a function that asks a server, which has opened a document."""
    server = servers._Server(lambda _: Path(), Incoming(BytesIO()))
    server._editor._link = FakeClient()  # type: ignore[assignment]
    features: Any = server.protocol.fm.features

    def run(method: str, params: Any) -> Any:
        return features[method](params)

    symbols = types.DocumentSymbolClientCapabilities(
        hierarchical_document_symbol_support=request.param
    )
    shown = types.TextDocumentClientCapabilities(document_symbol=symbols)
    capabilities = types.ClientCapabilities(text_document=shown)
    next(server.protocol.lsp_initialize(types.InitializeParams(capabilities=capabilities)))
    item = types.TextDocumentItem(URI, "jsonl", 1, TEXT)
    run(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
    return run


async def test_an_outline_is_made_and_encoded_beside_the_loop(
    ask: Callable[[str, Any], Any], places: dict[str, bool]
) -> None:
    params = types.DocumentSymbolParams(types.TextDocumentIdentifier(URI))
    answer = await ask(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, params)
    assert isinstance(answer, Encoded)
    assert len(json.loads(answer.body)) == COUNT
    assert {*places} in (
        {"find_places", "outline", "tree_symbols", "encoded"},
        {"find_places", "outline", "flat_symbols", "encoded"},
    )
    assert not any(places.values())


async def test_a_line_is_searched_beside_the_loop(
    ask: Callable[[str, Any], Any], places: dict[str, bool]
) -> None:
    named, place = types.TextDocumentIdentifier(URI), types.Position(COUNT - 1, 45)
    answer = await ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(named, place))
    assert b"id: e" in answer.body
    answer = await ask(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(named, place))
    assert json.loads(answer.body)["range"]["start"]["line"] == COUNT - 2
    assert {*places} == {"find_places", "references", "encoded"}
    assert not any(places.values())


@pytest.mark.parametrize(
    ("method", "params", "work"),
    [
        (types.TEXT_DOCUMENT_FOLDING_RANGE, types.FoldingRangeParams, {"folds"}),
        (types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams, {"lenses"}),
        (
            types.TEXT_DOCUMENT_REFERENCES,
            partial(types.ReferenceParams, types.ReferenceContext(True), position=START),
            {"references", "references_to"},
        ),
        (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensParams, set[str]()),
        (
            types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE,
            partial(types.SemanticTokensRangeParams, range=types.Range(START, START)),
            set[str](),
        ),
    ],
)
async def test_a_feature_works_beside_the_loop(
    ask: Callable[[str, Any], Any],
    places: dict[str, bool],
    method: str,
    params: Callable[..., Any],
    work: set[str],
) -> None:
    answer = await ask(method, params(text_document=types.TextDocumentIdentifier(URI)))
    assert answer.body != b"null"
    assert {*places} == {"encoded"} | work | ({"find_places"} if work else set())
    assert not any(places.values())
