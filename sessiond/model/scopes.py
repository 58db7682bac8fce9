"""Scopes: the key under which programs find a session by its purpose, and the id that follows from the key.

Law: the id of a scoped session is derived from its key. So a key has one session at most, also over
calls at once, restarts and kills. The header holds the key in words, for readers.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.digests import sha256_hex

ScopeName = Literal["global", "assistant", "project"]


class Scope(Struct, frozen=True, omit_defaults=True):
    """Key of a scoped session: "global", an `agent`, or a `project`, which may name an `agent` too."""

    scope: ScopeName
    agent: str | None = None
    project: str | None = None

    @property
    def session_id(self) -> str:
        """Id of the session: 32 hex digits of SHA-256."""
        parts = ("scope", self.scope, self.agent or "", self.project or "")
        return sha256_hex("\0".join(parts).encode())[:32]


def scope_bytes(scope: Scope) -> Raw:
    """Return the key as a header holds it."""
    return Raw(msgspec.json.encode(scope))


def scope_in(field: Raw | UnsetType, session_id: str) -> Scope | UnsetType:
    """Return the key that a header holds; UNSET if the id of the session is not that of the key.

    A copy of a session file has another id: the copy is not the session of the key.
    """
    if isinstance(field, UnsetType):
        return UNSET
    try:
        scope = typed.decode(field, Scope)
        is_its_own = scope.session_id == session_id
    except (msgspec.DecodeError, UnicodeEncodeError):
        # A foreign writer's header may have a field of this name.
        return UNSET
    return scope if is_its_own else UNSET
