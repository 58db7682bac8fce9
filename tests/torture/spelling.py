"""An act as it goes to a client or onto the wire."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from tests.torture.payloads import own_fields, spelled
from tests.torture.records import Act

__all__ = ["frame", "wire_params"]


def wire_params(act: Act) -> dict[str, Any]:
    """Return the params of the request, with payloads as bytes."""
    params: dict[str, Any] = {"session_id": act.session, **act.params}
    match act.entries:
        case ():
            pass
        case (sent,) if sent.type == "message" and not sent.id and not sent.flavour:
            params["message"] = Raw(own_fields(sent)["message"].encode())
        case (sent,):
            params["entry"] = spelled(sent)
        case several:
            params["entries"] = [spelled(sent) for sent in several]
    return params


def frame(id_: int | str, method: str, params: dict[str, Any]) -> bytes:
    """Return a request as a line of the wire."""
    return msgspec.json.encode({"id": id_, "method": method, "params": params}) + b"\n"
