"""Entries as they are sent, made again from the few facts that a log keeps of them.

Law: equal `Sent` give equal bytes, so the checker knows byte for byte what must be in the file.
Every entry has a mark that no other entry of the run has.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

import msgspec
from msgspec import Raw, Struct

from tests.torture.records import Sent

__all__ = ["digest", "key_id", "mark_of", "own_fields", "spelled"]

# What stands in an odd payload beside its mark: spellings that a decoder would not give back.
_ODD: Final = (
    '"n":1.50,"e":1E+2,"z":-0.0,"big":123456789012345678901234567890',
    '"lines":"one\u2028two\u2029three\u0085","escaped":"\\u2028\\/\\ud83d\\ude00\\u00e9\\t"',
    '"b":{"z":[],"a":{},"":null},"ümlaut":"日本","text":"\\"quoted\\\\"',
)


class _Marked(Struct):
    mark: str | None = None


_marked: Final = msgspec.json.Decoder(_Marked).decode


def spelled(sent: Sent) -> Raw:
    """Return the entry as it is sent to the daemon."""
    fields = own_fields(sent)
    head = f'"type":"{sent.type}",' + (f'"id":"{sent.id}",' if sent.id else "")
    inner = ",".join(f'"{name}":{raw}' for name, raw in fields.items())
    return Raw(("{" + head + inner + "}").encode())


def own_fields(sent: Sent) -> dict[str, str]:
    """Return the fields of the entry's type, each as JSON."""
    odd = "," + _ODD[sent.flavour % len(_ODD)] if sent.flavour else ""
    filler = "x" * sent.size
    noted = f'{{"mark":"{sent.mark}"{odd},"fill":"{filler}"}}'
    match sent.type:
        case "message":
            body = f'"role":"{sent.role}","mark":"{sent.mark}"{odd},"content":"{filler}"'
            return {"message": "{" + body + "}"}
        case "custom_message":
            return {
                "custom_type": '"torture"',
                "content": f'"{filler}"',
                "display": "true",
                "details": f'{{"mark":"{sent.mark}"{odd}}}',
            }
        case "custom":
            return {"custom_type": '"torture"', "data": noted}
        case "branch_summary":
            return {"summary": f'"{filler}"', "from_id": "null", "details": noted}
        case "thinking_level_change":
            return {"thinking_level": f'"{sent.mark}"'}
        case "model_change":
            return {"model_id": f'"{sent.mark}"', "provider": '"p"'}
        case "label":
            return {"target_id": json.dumps(sent.target), "label": f'"{sent.mark}"'}
        case "session_info":
            return {"name": f'"{sent.mark}"'}
        case _:
            return {"mark": f'"{sent.mark}"', "odd": noted}


def mark_of(fields: dict[str, Raw]) -> str | None:
    """Return the mark of a line; None for a line without one (a move without a summary)."""
    for name in ("message", "details", "data"):
        if name in fields and bytes(fields[name]).startswith(b"{"):
            mark = _marked(fields[name]).mark
            if mark is not None:
                return mark
    for name in ("mark", "label", "name", "thinking_level", "model_id"):
        if name in fields and bytes(fields[name]).startswith(b'"'):
            return str(msgspec.json.decode(fields[name]))
    return None


def key_id(session: str, key: str, index: int) -> str:
    """Return the entry id that follows from an idempotency key, as protocol.md defines it."""
    text = f"{session}\0{key}\0{index}".encode()
    return hashlib.sha256(text).hexdigest()[:32]


def digest(raw: bytes | Raw) -> str:
    """Return the digest by which two copies of an entry are compared."""
    return hashlib.sha256(raw).hexdigest()[:16]
