"""Entries as a person writes them, and as a terminal shows them.

Law: every shown form is accepted as input. `session/resolve_entries` decides which entry a ref
names and how short a ref may be; programs get whole ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from sessiond.cli.connect.conversation import NULL, ask, read
from sessiond.cli.ui.output import is_terminal

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

# The value that `expect_option` passes.
Expected = dict[str, str | None] | None
# Number of refs in one call.
_REFS: Final = 500


def entry_id(client: BlockingClient, session_id: str, ref: str) -> str:
    """Return the id of the entry that a ref names. Raise RpcError."""
    return _resolved(client, session_id, [ref])[0]["entry_id"]


def entry_ids(client: BlockingClient, session_id: str, refs: Sequence[str]) -> list[str]:
    """Return the ids of the entries that the refs name, in their order. Raise RpcError."""
    pages = (refs[at : at + _REFS] for at in range(0, len(refs), _REFS))
    return [row["entry_id"] for page in pages for row in _resolved(client, session_id, page)]


def entry_or_null(client: BlockingClient, session_id: str, ref: str | None) -> str | Raw | None:
    """Return the id that a ref names; JSON's null for "null"; None if no ref is given."""
    if ref is None:
        return None
    return NULL if ref == "null" else entry_id(client, session_id, ref)


def expected_leaf(client: BlockingClient, session_id: str, expected: Expected) -> Expected:
    """Return the `expected` of a request, with the leaf as an id."""
    if expected is None or expected["leaf_id"] is None:
        return expected
    return {"leaf_id": entry_id(client, session_id, expected["leaf_id"])}


def short_ids(
    client: BlockingClient, session_id: str, ids: Iterable[str | None]
) -> Mapping[str | None, str]:
    """Return the shown form of each entry: short on a terminal, else its id; None is "null"."""
    wanted = list(dict.fromkeys(one for one in ids if one is not None))
    shown: dict[str | None, str] = {None: "null", **{one: one for one in wanted}}
    if is_terminal():
        for at in range(0, len(wanted), _REFS):
            page = wanted[at : at + _REFS]
            for one, found in zip(page, _resolved(client, session_id, page), strict=True):
                shown[one] = found["short"]
    return shown


def _resolved(
    client: BlockingClient, session_id: str, refs: Sequence[str]
) -> list[Mapping[str, str]]:
    from sessiond_client import RpcError

    try:
        answer = ask(client, "session/resolve_entries", session_id=session_id, refs=[*refs])
    except RpcError as error:
        if error.kind != "method_not_found":
            raise
        # A daemon of an older version knows whole ids only.
        return [{"entry_id": ref, "short": ref} for ref in refs]
    found: list[Mapping[str, Any]] = read(answer)["entries"]
    return found
