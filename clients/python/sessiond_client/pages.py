"""Context that is larger than an answer: asked for by pages, and joined. Pure.

Law: the caller is given the answer that one call would have had, and knows of no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond_client import wire
from sessiond_client.errors import RpcError, SessiondClientError

__all__ = ["Pages"]

_LISTS: Final = ("messages", "sources")
_MESSAGES_MAX: Final = 10_000


class Pages:
    """The pages of one context that have come, and the parameters of the next one."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params: Mapping[str, Any] | None = {**params, "limit": _MESSAGES_MAX}
        """Parameters of the next page; None behind the last one."""
        self._found: list[dict[str, Raw]] = []

    @staticmethod
    def are_needed(error: SessiondClientError | None) -> bool:
        """Return whether the daemon has refused a whole answer that it gives by pages."""
        return isinstance(error, RpcError) and error.data.get("pages") is True

    def take(self, result: Raw) -> None:
        """Add the next page."""
        page = wire.read(dict[str, Raw], result)
        cursor = wire.READ_ANY(page.pop("next_cursor", Raw(b"null")))
        self._found.append(page)
        self.params = None if cursor is None else {**(self.params or {}), "cursor": cursor}

    def whole(self) -> Raw:
        """Return the answer with the lists of all pages."""
        first = self._found[0]
        for name in _LISTS:
            if name in first:
                parts = (bytes(page[name]).strip()[1:-1] for page in self._found)
                first[name] = Raw(b"[%b]" % b",".join(filter(None, parts)))
        return Raw(msgspec.json.encode(first))
