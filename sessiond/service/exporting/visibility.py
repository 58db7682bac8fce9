"""Entries that one program shows to a model and another one does not."""

from __future__ import annotations

from typing import Final

from sessiond.dialects.base import ContextLine, Dialect
from sessiond.model.row import Kind

MAY_DIFFER: Final = frozenset({Kind.CUSTOM_MESSAGE, Kind.BRANCH_SUMMARY})
"""Kinds that some programs show to a model."""

_SHOWN: Final = "entries that no model saw are shown to a model in this format"
_HIDDEN: Final = "entries that a model saw are shown to no model in this format"


def changed_visibility(
    kind: int, before: tuple[Dialect, bytes], after: tuple[Dialect, bytes]
) -> str:
    """Return the difference between an entry's line in one dialect and in another; "" for none."""
    was, is_now = (
        bool(one.context([ContextLine("", kind, line)])) for one, line in (before, after)
    )
    if was == is_now:
        return ""
    return _SHOWN if is_now else _HIDDEN
