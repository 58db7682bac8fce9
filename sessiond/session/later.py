"""Shift of the seqs in receipts and refusals after foreign lines landed before a batch.

A receipt names the seqs at which its lines were staged. A foreign writer's lines that land right
before the batch push those lines further back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from sessiond.errors import IdempotencyConflict, PreconditionFailed, SessiondError


def later(told: Any, after: int, by: int) -> Any:
    """Return a copy of a receipt with every seq behind `after` raised by `by`, lists included."""
    if not isinstance(told, Struct):
        return told
    raised: dict[str, Any] = {}
    for name in told.__struct_fields__:
        value = getattr(told, name)
        if name == "seq":
            raised[name] = _raised(value, after, by)
        elif isinstance(value, list):
            raised[name] = [later(one, after, by) for one in getattr(told, name)]
    return structs.replace(told, **raised)


def refused_later(refusal: SessiondError, after: int, by: int) -> SessiondError:
    """Return the refusal with the seqs of staged lines behind `after` raised by `by`."""
    data = refusal.data()
    if isinstance(refusal, PreconditionFailed):
        actual = {**data["actual"], "seq": _raised(data["actual"]["seq"], after, by)}
        return refusal.replacing(actual=actual)
    if isinstance(refusal, IdempotencyConflict):
        return refusal.replacing(stored_seq=_raised(data["stored_seq"], after, by))
    return refusal


def _raised(seq: int, after: int, by: int) -> int:
    return seq + by if seq > after else seq
