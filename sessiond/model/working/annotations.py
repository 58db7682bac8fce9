"""Annotations and channels: `custom` entries about another entry, and about where messages come from.

Law: an annotation is never changed. Each one is a patch (RFC 7396) on those before it, so attachments,
an answered message and reactions of an entry are the sum of its annotations in the order of the file,
on every branch.

    {"type":"custom","custom_type":"sessiond.annotation",
     "data":{"entry_id":"a1b2c3d4","data":{"reactions":{"👍":["ana"]}}}}
    {"type":"custom","custom_type":"sessiond.channel","data":{"name":"telegram","chat_id":"42"}}
"""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Raw, Struct

from sessiond import typed
from sessiond.model.escapes import whole_characters
from sessiond.model.working.entries import BadState, StateEffect, bad_data, state_effect

ANNOTATION: Final = "sessiond.annotation"
CHANNEL: Final = "sessiond.channel"

_Name = Annotated[str, Meta(min_length=1)]


class AnnotationEffect(Struct, frozen=True):
    """A patch on what is known about the entry of this id."""

    entry_id: str


class Channel(Struct, frozen=True, omit_defaults=True):
    """Place from which the messages come that follow: a chat, a mail box, a terminal."""

    name: _Name
    chat_id: str | int | None = None
    user_id: str | int | None = None


class _Annotation(Struct):
    entry_id: _Name
    data: dict[str, Raw]


class _Patch(Struct):
    data: dict[str, Any]


def custom_effect(custom_type: str, data: Raw | None) -> StateEffect | AnnotationEffect | None:
    """Return the effect of a `custom` entry; None for an entry of another type."""
    if custom_type not in {ANNOTATION, CHANNEL}:
        return state_effect(custom_type, data)
    encoded = whole_characters(b"null" if data is None else bytes(data))
    try:
        if custom_type == CHANNEL:
            typed.decode(encoded, Channel)
            return None
        return AnnotationEffect(typed.decode(encoded, _Annotation).entry_id)
    except (msgspec.DecodeError, RecursionError) as error:
        bad: BadState = bad_data(custom_type, error)
        return bad


def channel_of(data: Raw | None) -> Channel | None:
    """Return the channel that an entry's data names; None for data of another shape."""
    try:
        return None if data is None else typed.decode(whole_characters(bytes(data)), Channel)
    except (msgspec.DecodeError, RecursionError):
        return None


def patch_of(data: Raw | None) -> dict[str, Any]:
    """Return the patch in an annotation's data; no members for data of another shape.

    Half a character becomes U+FFFD.
    """
    try:
        return {} if data is None else typed.decode(whole_characters(bytes(data)), _Patch).data
    except (msgspec.DecodeError, RecursionError):
        return {}


def patched(value: Any, patch: Any) -> Any:
    """Return a value with a patch applied: null removes a member, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    found = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    for name, part in cast("dict[str, Any]", patch).items():
        if part is None:
            found.pop(name, None)
        else:
            found[name] = patched(found.get(name), part)
    return found
