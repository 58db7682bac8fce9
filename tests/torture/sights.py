"""Sights: the part of an answer that is logged and compared with the file.

The other side of the comparison is reads.py, which makes sights of the replayed file.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from tests.torture.payloads import digest
from tests.torture.replay import digest_of_fields

__all__ = ["chain", "sight_of"]

_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_read: Final = msgspec.json.decode
_STAND_INS: Final = (b'"custom"', b'"branch_summary"', b'"compaction_summary"')


def sight_of(method: str, result: bytes) -> dict[str, Any]:
    """Return the sight of a result."""
    match method:
        case "session/entries":
            fields = _fields(result)
            rows = _read(fields["entries"], type=list[dict[str, Raw]])
            shown = [[_read(row["seq"]), digest(row["entry"])] for row in rows]
            return {"rows": shown, "next": _read(fields["next_seq"]), "seq": _read(fields["seq"])}
        case "session/path":
            fields = _fields(result)
            rows = _read(fields["entries"], type=list[dict[str, Raw]])
            return {
                "rows": [_placed(row) for row in rows],
                "more": bytes(fields["next_cursor"]) != b"null",
            }
        case "session/entry":
            return {"row": _placed(_fields(result))}
        case "session/build_context":
            return _context(_fields(result))
        case "session/tree":
            fields = _fields(result)
            names = ("id", "seq", "type", "on_active_path", "label", "children", "parent_id")
            nodes = [
                [*(node[name] for name in names), node.get("resolved_parent_id", "as it says")]
                for node in _read(fields["nodes"])
            ]
            return {"nodes": nodes, "seq": _read(fields["seq"])}
        case "session/get" | "session/update" | "session/open":
            session = _read(_fields(result)["session"])
            names = ("seq", "leaf_id", "heads", "title", "message_total", "persisted", "epoch")
            return {name: session[name] for name in (*names, "archived")}
        case "session/labels":
            rows = _read(result)["labels"]
            return {"labels": [[row["entry_id"], row["label"]] for row in rows]}
        case "session/rewind":
            return {**_read(result), "rewound": None}
        case _:
            read: dict[str, Any] = _read(result)
            return read


def chain(digests: list[str]) -> str:
    """Return one digest for all digests in order."""
    return digest(",".join(digests).encode())


def _placed(row: dict[str, Raw]) -> list[Any]:
    return [_read(row["seq"]), digest(row["entry"]), _read(row["children"]), _read(row["label"])]


def _context(fields: dict[str, Raw]) -> dict[str, Any]:
    if "not_modified" in fields:
        return {"etag": _read(fields["etag"]), "not_modified": True}
    messages = _read(fields["messages"], type=list[Raw])
    sources = _read(fields["sources"])
    kept = {name: _read(fields[name]) for name in ("leaf_id", "seq", "etag", "unchanged")}
    return {
        **kept,
        "count": len(messages),
        "last": sources[-1] if sources else None,
        "messages": chain([_message(raw) for raw in messages]),
        "sources": chain(sources),
    }


def _message(raw: Raw) -> str:
    fields = _fields(raw)
    if bytes(fields.get("role", Raw(b""))) in _STAND_INS:
        return digest_of_fields({name: bytes(value) for name, value in fields.items()})
    return digest(raw)
