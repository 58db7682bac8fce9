"""Base class of every method's parameters, and the error for parameters that do not fit.

Strict: an unknown field is an error that names the field, because a silently ignored typo costs its
author an afternoon. `_meta` is always allowed; unknown members of `_meta` are ignored.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, field

from sessiond.errors import InvalidParams
from sessiond.model.ids import PATTERN_WORDS

__all__ = ["Params", "RequestMeta", "invalid_params"]

# Beginnings of msgspec messages that name the field in the text instead of in the path.
_FIELD_PHRASES: Final = ("Object contains unknown field `", "Object missing required field `")
_TEXT_CHARS_MAX: Final = 300


# Every report repeats the token, so a token is short, or an integer that every client can hold.
ProgressToken = (
    Annotated[str, Meta(min_length=1, max_length=128)]
    | Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
)


class RequestMeta(Struct):
    """Options that accompany a call; `progress_token` asks for `$/progress` notifications."""

    progress_token: ProgressToken | UnsetType = UNSET


class Params(Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a method; a subclass adds its fields."""

    meta: RequestMeta | UnsetType | None = field(name="_meta", default=UNSET)


def invalid_params(error: ValidationError, prefix: str = "") -> InvalidParams:
    """Return the error for a client, with the path of the bad field below `prefix`.

    "Expected `str`, got `int` - at `$.entries[0].id`"  →  entries[0].id
    "Object contains unknown field `zz` - at `$.expected`"  →  expected.zz
    """
    what, _, place = str(error).partition(" - at `")
    # msgspec points at a key of an object with "key` in `$.x".
    path = place.removeprefix("key` in `").removesuffix("`").removeprefix("$")
    for phrase in _FIELD_PHRASES:
        if what.startswith(phrase):
            path += "." + what.removeprefix(phrase).removesuffix("`")
    full = (prefix + path).removeprefix(".")
    return InvalidParams(_in_words(what)[:_TEXT_CHARS_MAX], path=full[:_TEXT_CHARS_MAX])


def _in_words(what: str) -> str:
    """Return the message with a pattern that did not match put into words."""
    for pattern, words in PATTERN_WORDS.items():
        if f"matching regex {pattern!r}" in what:
            return f"Expected {words}"
    return what
