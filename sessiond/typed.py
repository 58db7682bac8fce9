"""Typed reading of JSON: decoders, each made by one thread at a time.

msgspec (0.22) learns the members of a Struct at the first use of the type, and shows other threads what it
has learned before that is whole. Two threads that use a type for the first time at the same moment end the
process with SIGSEGV. The first use is therefore made here, under one lock; every later use needs none.

Law: no other module of sessiond lets msgspec read into a type (the linter refuses it).
"""

from __future__ import annotations

from threading import RLock
from typing import Any, Final, TypeVar, overload

import msgspec
from msgspec import Raw
from msgspec.json import Decoder as Decoder
from msgspec.msgpack import Decoder as Unpacker

T = TypeVar("T")

_making: Final = RLock()
_decoders: Final[dict[Any, Decoder[Any]]] = {}


@overload
def decoder(kind: type[T]) -> Decoder[T]: ...
@overload
def decoder(kind: Any) -> Decoder[Any]: ...
def decoder(kind: Any) -> Decoder[Any]:
    """Return a new decoder of JSON for one type: for a constant of a module, or what a class keeps."""
    with _making:
        return Decoder(kind)


def unpacker(kind: type[T]) -> Unpacker[T]:
    """Return a new decoder of MessagePack for one type."""
    with _making:
        return Unpacker(kind)


@overload
def decode(data: bytes | str | Raw) -> Any: ...
@overload
def decode(data: bytes | str | Raw, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | str | Raw, kind: Any) -> Any: ...
def decode(data: bytes | str | Raw, kind: Any = Any) -> Any:
    """Return JSON as a value of a type, or of any. Raises msgspec.DecodeError, and UnicodeDecodeError.

    The decoder of the type is made at the first use, and kept.
    """
    kept = _decoders.get(kind)
    return (_kept(kind) if kept is None else kept).decode(data)


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Return a decoded value as a value of a type, as `msgspec.convert` does. Raises msgspec.ValidationError."""
    _kept(kind)
    return msgspec.convert(value, kind, strict=strict)


def _kept(kind: Any) -> Decoder[Any]:
    """Return the decoder of a type."""
    kept = _decoders.get(kind)
    if kept is None:
        kept = _decoders[kind] = decoder(kind)
    return kept
