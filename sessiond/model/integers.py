"""Integers with a fraction or an exponent (`1.0`, `1e3`), as JSON Schema counts them.

JSON has one kind of number, and Emacs and Lua write whole numbers as `1.0`. The decoder
accepts only the plain spelling of an integer. So only if the decoder refuses a value, its
numbers at the places of integers are spelled plainly and the value is decoded again.
Bytes that the type passes on (`Raw`) are never changed.

    {"after":{"seq":3.0}}  ->  {"after":{"seq":3}}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from sessiond import typed

T = TypeVar("T")

_NUMBER: Final = rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?0*[0-9]{1,3})?"
# No finite number of 64 bits has more digits; 1e999 is never written out.
_DIGITS_MAX: Final = 309
_TEXT_BYTES_MAX: Final = 400
_members: Final = typed.decoder(dict[str, Raw]).decode
_items: Final = typed.decoder(list[Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class _Places(Struct):
    """The places of integers in a value of one type."""

    integer: bool = False
    members: Mapping[str, _Places] = {}
    values: _Places | None = None
    """The places in each member of an object with arbitrary names."""
    items: _Places | None = None
    positions: tuple[_Places, ...] = ()


class IntegerDecoder(Generic[T]):
    """A typed decoder that accepts every spelling of an integer."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @cached_property
    def _decode(self) -> Callable[[bytes | Raw], T]:
        # Made at the first use: decoders of all entry types would take a fiftieth of a start.
        return typed.decoder(self._kind).decode

    def decode(self, encoded: bytes | Raw) -> T:
        """Return the typed value. Raises msgspec.DecodeError and ValidationError."""
        try:
            return self._decode(encoded)
        except ValidationError:
            return decode_integers(self._decode, self._kind, encoded)


def decode_integers(decode: Callable[[bytes | Raw], T], kind: Any, encoded: bytes | Raw) -> T:
    """Decode a value that `decode` has refused again, with its integers spelled plainly.

    Raises what `decode` raises; if no integer changed, the error is about the value as sent.
    """
    try:
        again = _respelled(bytes(encoded), _places_in(kind))
    except DecodeError:
        # The value is no JSON; `decode` raises the error for that.
        again = None
    return decode(encoded if again is None else again)


@cache
def _places_in(kind: Any) -> _Places:
    # The import takes half a megabyte, so it waits for the first client that sends 1.0.
    from msgspec import inspect

    return _places_of(inspect.type_info(kind), {})


def _places_of(info: Any, known: dict[Any, _Places]) -> _Places:
    from msgspec import inspect

    found = _Places()
    match info:
        case inspect.Metadata():
            return _places_of(info.type, known)
        case inspect.IntType():
            found.integer = True
        case inspect.UnionType():
            _join(found, [_places_of(part, known) for part in info.types])
            # A union with floats accepts numbers that are no integers.
            found.integer &= not any(isinstance(part, inspect.FloatType) for part in info.types)
        case inspect.StructType() if not info.array_like:
            if info.cls in known:
                return known[info.cls]
            known[info.cls] = found
            found.members = {
                field.encode_name: _places_of(field.type, known) for field in info.fields
            }
        case inspect.ListType() | inspect.VarTupleType():
            found.items = _places_of(info.item_type, known)
        case inspect.TupleType():
            found.positions = tuple(_places_of(part, known) for part in info.item_types)
        case inspect.DictType():
            found.values = _places_of(info.value_type, known)
        case _:
            pass
    return found


def _join(into: _Places, parts: list[_Places]) -> None:
    """Add the places of a union's parts; the parts cannot clash, as each is another JSON type."""
    for part in parts:
        into.integer |= part.integer
        into.members = {**into.members, **part.members}
        into.values = into.values or part.values
        into.items = into.items or part.items
        into.positions = into.positions or part.positions


def _respelled(encoded: bytes, places: _Places) -> bytes | None:
    """Return the value with its integers spelled plainly; None if nothing changes."""
    encoded = encoded.strip(b" \t\r\n")
    if encoded[:1] == b"{" and (places.members or places.values is not None):
        members = _members(encoded)
        changed = {
            name: new
            for name, raw in members.items()
            if (part := places.members.get(name, places.values)) is not None
            and (new := _respelled(bytes(raw), part)) is not None
        }
        if not changed:
            return None
        texts = {name: bytes(raw) for name, raw in members.items()} | changed
        return b"{" + b",".join(_encode(name) + b":" + text for name, text in texts.items()) + b"}"
    if encoded[:1] == b"[" and (places.items is not None or places.positions):
        return _respelled_items(encoded, places)
    return _as_integer(encoded) if places.integer else None


def _respelled_items(encoded: bytes, places: _Places) -> bytes | None:
    texts = [bytes(raw) for raw in _items(encoded)]
    parts = places.positions if places.items is None else (places.items,) * len(texts)
    changed = False
    for index, (text, part) in enumerate(zip(texts, parts, strict=False)):
        new = _respelled(text, part)
        if new is not None:
            texts[index], changed = new, True
    return b"[" + b",".join(texts) + b"]" if changed else None


def _as_integer(encoded: bytes) -> bytes | None:
    """Return the plain spelling of a whole number; None for a plain spelling and other text."""
    if len(encoded) > _TEXT_BYTES_MAX or encoded.lstrip(b"-").isdigit():
        return None
    if not re.fullmatch(_NUMBER, encoded):
        return None
    value = Decimal(encoded.decode())
    if value and value.adjusted() >= _DIGITS_MAX:
        return None
    whole = int(value)
    return b"%d" % whole if whole == value else None
