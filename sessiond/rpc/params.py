"""Base class of every method's parameters, and the error for parameters that do not fit.

Strict: an unknown field is an error that names the field, because a silently ignored typo costs its
author an afternoon. `_meta` is always allowed; unknown members of `_meta` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, field

from sessiond.errors import InvalidParams
from sessiond.model.ids import PATTERN_WORDS

# Beginnings of msgspec messages that name the field in the text instead of in the path.
_FIELD_PHRASES: Final = ("Object contains unknown field `", "Object missing required field `")
_NO_WORD: Final = "Invalid enum value"
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


def invalid_params(
    error: ValidationError, prefix: str = "", kind: type[Struct] | None = None
) -> InvalidParams:
    """Return the error for a client, with the path of the bad field below `prefix`.

    With `kind`, the type that did not fit, the error names the words that a field allows.

    "Expected `str`, got `int` - at `$.entries[0].id`"  →  entries[0].id
    "Object contains unknown field `zz` - at `$.expected`"  →  expected.zz
    """
    what, _, place = str(error).partition(" - at `")
    # msgspec points at a key of an object with "key` in `$.x".
    path = place.removeprefix("key` in `").removesuffix("`").removeprefix("$")
    for phrase in _FIELD_PHRASES:
        if what.startswith(phrase):
            path += "." + what.removeprefix(phrase).removesuffix("`")
    if kind is not None and what.startswith(_NO_WORD):
        words = dict.fromkeys(_words_at(kind, path))
        what += f": send one of {', '.join(words)}" if words else ""
    full = (prefix + path).removeprefix(".")
    return InvalidParams(_in_words(what)[:_TEXT_CHARS_MAX], path=full[:_TEXT_CHARS_MAX])


def _in_words(what: str) -> str:
    """Return the message with a pattern that did not match put into words."""
    for pattern, words in PATTERN_WORDS.items():
        if f"matching regex {pattern!r}" in what:
            return f"Expected {words}"
    return what


def _words_at(kind: type[Struct], path: str) -> Iterator[str]:
    """Yield the words that the field at a path allows: `form`, `compaction.preset`, `include[0]`."""
    hint: Any = kind
    for name in re.findall(r"[^.\[\]]+(?![\w.]*\])", path):
        structs = [one for one in _parts(hint) if name in getattr(one, "__struct_fields__", ())]
        if not structs:
            return
        hint = get_type_hints(structs[0])[name]
    for part in _parts(hint):
        if get_origin(part) is Literal:
            yield from map(str, get_args(part))


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all types that it is made of."""
    yield hint
    if get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from _parts(part)
