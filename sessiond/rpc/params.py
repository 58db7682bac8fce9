"""The base of every method's parameters, and what a client is told when they do not fit.

Strict: an unknown field is an error that names it, because a typo that is
silently ignored costs its author an afternoon. `_meta` is always allowed, and
what it holds beside the members below is not looked at.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, field

from sessiond.errors import InvalidParams
from sessiond.model.ids import PATTERN_WORDS

__all__ = ["Params", "RequestMeta", "invalid_params"]

# msgspec's words for a field that is named in the message instead of in the path.
_FIELD_PHRASES: Final = ("Object contains unknown field `", "Object missing required field `")
_TEXT_CHARS_MAX: Final = 300


# It is sent back with every report, so it is short, and an integer that every client can hold.
ProgressToken = (
    Annotated[str, Meta(min_length=1, max_length=128)]
    | Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
)


class RequestMeta(Struct):
    """What a client asks for beside the call itself: `progress_token` wants `$/progress`."""

    progress_token: ProgressToken | UnsetType = UNSET


class Params(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a method takes; a subclass adds its fields."""

    meta: RequestMeta | UnsetType | None = field(name="_meta", default=UNSET)


def invalid_params(error: ValidationError, prefix: str = "") -> InvalidParams:
    """The error for a client, with the path of the bad field below `prefix`.

    "Expected `str`, got `int` - at `$.entries[0].id`"  →  entries[0].id
    "Object contains unknown field `zz` - at `$.expected`"  →  expected.zz
    """
    what, _, place = str(error).partition(" - at `")
    # "key` in `$.x" is msgspec's way to point at a key of an object.
    path = place.removeprefix("key` in `").removesuffix("`").removeprefix("$")
    for phrase in _FIELD_PHRASES:
        if what.startswith(phrase):
            path += "." + what.removeprefix(phrase).removesuffix("`")
    full = (prefix + path).removeprefix(".")
    return InvalidParams(_in_words(what)[:_TEXT_CHARS_MAX], path=full[:_TEXT_CHARS_MAX])


def _in_words(what: str) -> str:
    """Return what is wrong, with a pattern that did not match said in words."""
    for pattern, words in PATTERN_WORDS.items():
        if f"matching regex {pattern!r}" in what:
            return f"Expected {words}"
    return what
