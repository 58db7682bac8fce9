"""The readers of a damaged session: programs with the Python client, commands, editors.

Law: the Python client can read everything that the daemon shows. A refusal comes as a refusal. A
value that Python cannot hold comes as the package's own error. No other error comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio

from sessiond.cli.offline.lines import lines_of
from sessiond.lsp.document import Document
from sessiond.lsp.features.desk import View
from sessiond.lsp.features.folding import folds
from sessiond.lsp.features.lenses import lenses
from sessiond.lsp.features.references import references_to
from sessiond.lsp.features.tokens import encoded
from sessiond.lsp.hovering import describe_header
from sessiond.lsp.outline import outline
from sessiond.lsp.text.lines import own_id, references
from sessiond.lsp.text.text import Encoding, Text
from sessiond_client import BlockingClient, RpcError, SessiondClientError, Synced, connect
from tests.kit.progress import unseen

__all__ = ["edited", "read"]

_READS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("get", {}),
    ("entries", {}),
    ("path", {}),
    ("tree", {"layout": True}),
    ("build_context", {}),
    ("heads", {}),
    ("labels", {}),
    ("verify", {}),
    ("repair", {}),
)
_REFUSALS: Final = frozenset({"session_corrupt", "too_large"})


def read(client: BlockingClient, session_id: str) -> Iterator[str]:
    """Every typed read, and all events."""
    for name, params in _READS:
        try:
            getattr(client, name)(session_id, **params)
        except RpcError as refused:
            if refused.kind not in _REFUSALS:
                yield f"{name} of the client was refused: {refused!r}"
        except Exception as error:  # noqa: BLE001 - that nothing else comes out is what is tested
            yield f"{name} of the client raised {error!r}"
    try:
        with client.subscribe(session_id, after=0) as events:
            for event in events:
                if isinstance(event, Synced):
                    break
    except RpcError as refused:
        if refused.kind not in _REFUSALS:
            yield f"a subscription was refused: {refused!r}"
    except Exception as error:  # noqa: BLE001 - as above
        yield f"a subscription raised {error!r}"


def edited(socket: Path, path: Path, data: bytes) -> Iterator[str]:
    """Outline the file as an editor does, and list its lines as `dump` does; yield the faults."""
    try:
        anyio.run(_outlined, socket, path, data.decode(errors="replace"))
        shown = [*lines_of(path, with_preview=True)]
    except Exception as error:  # noqa: BLE001 - as above
        yield f"an editor met {error!r}"
    else:
        if sum(line.size for line in shown) != path.stat().st_size:
            yield "dump left bytes out"


async def _outlined(socket: Path, path: Path, text: str) -> None:
    for line in text.split("\n"):
        own_id(line)
        list(references(line))
    async with connect(socket) as client:
        document = Document(path.as_uri(), path, Text(text, Encoding("utf-16-le", 2)))
        try:
            found = await document.snapshot(client, unseen)
        except SessiondClientError:
            return
        placed = await document.placed(found)
        assert placed is not None, "nobody edits the text"
        outline("title", found.nodes, placed.index, placed.places, more=found.more)
        describe_header(found.info)
        view = View(document.uri, client, found, placed.text, placed.places)
        folds(view.places, [(row.line, 0) for row in view.places.rows], len(view.text) - 1)
        lenses(view)
        encoded(enumerate(view.text), view.text.encoding)
        for row in view.places.rows[:1]:
            references_to(view, row.node.id, declared=True)
