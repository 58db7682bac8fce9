"""Ids of compaction plans: all the data needed to check a plan against the session later.

Law: the daemon keeps no plans. A plan's id holds the data that the plan was made for, so the id is
valid after a restart and in another connection. A caller who forges an id gains nothing: the
compaction is checked like one without a plan.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.errors import InvalidParams
from sessiond.model.digests import sha256_hex

_PREFIX: Final = "plan-1-"
_CHECK_BYTES: Final = 6


class PlanRef(Struct, frozen=True, array_like=True):
    """The state that a plan was made for."""

    session_id: str
    head: str
    leaf_id: str
    first_kept_entry_id: str
    tokens_before: int


def encode_plan_id(plan: PlanRef) -> str:
    """Return the plan's id: letters, digits, `-` and `_`."""
    said = msgspec.json.encode(plan)
    return _PREFIX + base64.urlsafe_b64encode(_check(said) + said).decode().rstrip("=")


def decode_plan_id(plan_id: str) -> PlanRef:
    """Return the state that a plan was made for. Raises InvalidParams for an id of no plan."""
    try:
        encoded = plan_id.removeprefix(_PREFIX)
        found = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        check, said = found[:_CHECK_BYTES], found[_CHECK_BYTES:]
        ref = typed.decode(said, PlanRef) if check == _check(said) else None
    except (binascii.Error, ValueError, msgspec.DecodeError):
        ref = None
    if ref is None or not plan_id.startswith(_PREFIX):
        raise InvalidParams(
            "no plan has this id; send the plan_id that session/plan_compaction gave",
            path="plan_id",
        )
    return ref


def _check(said: bytes) -> bytes:
    return bytes.fromhex(sha256_hex(said))[:_CHECK_BYTES]
