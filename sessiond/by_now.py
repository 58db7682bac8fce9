"""Lists and searches that need not be whole: what the daemon has read by now."""

from __future__ import annotations

from typing import Any, TypeVar

from sessiond import typed
from sessiond_client import Client, RpcError

T = TypeVar("T")


async def by_now(client: Client, kind: type[T], method: str, **params: Any) -> T:
    """Return an answer that says in `looking` what is still being read."""
    try:
        found = await client.call(method, **params, whole=False)
    except RpcError as error:
        if error.data.get("path") != "whole":
            raise
        # An older daemon has whole answers only.
        found = await client.call(method, **params)
    return typed.convert(found, kind)
