"""Codec of JSON-RPC messages: one body to one message, and one answer to one body.

Envelopes are decoded once, by one typed decoder; params and ids stay the bytes that were sent, so
an id is echoed exactly as it came. Answers are spliced, not encoded again: `jsonrpc`, `id`, then
exactly one of `result` and `error`.

    {"jsonrpc":"2.0","id":1,"method":"server/ping","params":{}}
    {"jsonrpc":"2.0","id":1,"result":{}}
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, structs

from sessiond import typed
from sessiond.errors import InvalidRequest, ParseFailed, SessiondError, TooLarge
from sessiond.limits import BATCH_MEMBERS_MAX, HALVES_BYTES_MAX

_BLANK: Final = b" \t\r\n"
_NULL: Final = b"null"
# First byte of a valid id: of a string, a number or null.
ID_STARTS: Final = frozenset(b'"-0123456789n')


class Request(Struct, gc=False):
    """A call, or a notification if there is no `id`. The type of the id is not checked yet."""

    method: str
    params: Raw = Raw(b"{}")
    id: Raw | UnsetType = UNSET
    jsonrpc: Literal["2.0"] = "2.0"


class Response(Struct, gc=False):
    """A client's answer to a request of the daemon."""

    id: bytes
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Any(Struct):
    """An envelope that accepts any object, to find out which message the object was meant to be."""

    jsonrpc: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Refused(Struct):
    """A malformed message: the error to answer, with the id if one could be read."""

    error: SessiondError
    id: bytes | None = None
    was_answer: bool = False
    """True if the message was meant to answer a request of the daemon."""
    is_notification: bool = False
    """True for a notification, which gets no answer, not even an error."""


Member = Request | Response | Refused


class Batch(Struct):
    """The members of one array, in order."""

    members: list[Member]


class _Failure(Struct):
    code: int
    message: str
    data: dict[str, Any]


# Escape of half a surrogate pair, behind an even number of backslashes.
_HALVES: Final = (
    rb"(?<!\\)((?:\\\\)*)\\u[dD]"
    rb"(?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_MARK: Final = rb"\uf8ff"
_REPLACEMENT: Final = rb"\ufffd"
_HALF: Final = "a text holds half a surrogate pair, which is no character; send U+FFFD instead"
# The common case of `decode` without its extra call; raises the errors that `decode` catches.
decode_request: Final = typed.decoder(Request).decode
_decode_raw: Final = typed.decoder(Raw).decode
_encode: Final = msgspec.json.Encoder().encode


def decode(body: bytes) -> Member | Batch:
    """Return the message in a body. Never raises."""
    try:
        try:
            return decode_request(body)
        except ValidationError:
            return _batch(body) if body.lstrip(_BLANK)[:1] == b"[" else _other(body)
    except RecursionError:
        # The decoder skips payloads recursively and raises before the stack overflows.
        return Refused(ParseFailed("the frame is nested too deeply"))
    except DecodeError as error:
        return _despite_halves(body) or Refused(ParseFailed(f"the frame is not JSON: {error}"))


def _despite_halves(body: bytes) -> Member | Batch | None:
    """Return the message if its only fault are half surrogate pairs; None if there are none.

    JSON's grammar allows halves and JavaScript writes them (a text cut inside an emoji), but they
    are no characters, and the decoder rejects them. The message is read with a mark in place of
    each half, so that the sender gets the error under the id of the request.
    """
    if len(body) > HALVES_BYTES_MAX:
        return None
    marked = re.sub(_HALVES, rb"\1\\uf8ff", body)
    if marked == body or _MARK in body:
        return None
    found = decode(marked)
    if isinstance(found, Batch):
        return Batch([_refused_if_marked(member) for member in found.members])
    return _refused_if_marked(found)


def _refused_if_marked(member: Member) -> Member:
    id_text = None if isinstance(member.id, UnsetType | None) else bytes(member.id)
    if id_text is not None and (_MARK in id_text or id_text[0] not in ID_STARTS):
        id_text = None
    if isinstance(member, Request):
        return Refused(InvalidRequest(_HALF), id_text, is_notification=member.id is UNSET)
    if isinstance(member, Refused):
        return Refused(member.error, id_text, was_answer=member.was_answer)
    # An answer cannot be answered with an error, and a veto must not be lost for its reason text.
    return Response(member.id, _mended(member.result), member.error)


def _mended(result: Raw | UnsetType) -> Raw | UnsetType:
    return result if result is UNSET else Raw(bytes(result).replace(_MARK, _REPLACEMENT))


def _batch(body: bytes) -> Batch | Refused:
    try:
        members = typed.decode(body, _members_type())
    except ValidationError:
        limit = BATCH_MEMBERS_MAX
        return Refused(TooLarge(f"a batch may have {limit} members", limit=limit))
    found = [member for member in structs.astuple(members) if member is not UNSET]
    if not found:
        return Refused(InvalidRequest("a batch has at least one member"))
    return Batch([_member(member) for member in found])


@cache
def _members_type() -> type[Struct]:
    """Return the type of an array of at most BATCH_MEMBERS_MAX members.

    Unlike a list, a struct stops decoding at the first member too many, not after the last of
    sixteen million.
    """
    return msgspec.defstruct(
        "_Members",
        [(f"member_{index}", Raw | UnsetType, UNSET) for index in range(BATCH_MEMBERS_MAX)],
        array_like=True,
        forbid_unknown_fields=True,
    )


def _member(raw: Raw) -> Member:
    try:
        return decode_request(raw)
    except ValidationError:
        return _other(raw)


def _other(body: bytes | Raw) -> Member:
    """Return the answer of a client, or the error in a would-be request."""
    try:
        message = typed.decode(body, _Any)
    except ValidationError:
        _decode_raw(body)  # raises for a body that is not JSON at all: the caller answers that
        return Refused(InvalidRequest("a message is an object"))
    id_text = None
    if message.id is not UNSET:
        text = bytes(message.id)
        id_text = text if text[0] in ID_STARTS else None
    if message.jsonrpc is not UNSET and bytes(message.jsonrpc) != b'"2.0"':
        problem = 'jsonrpc is "2.0" or absent'
    elif message.method is not UNSET:
        problem = "method is a string"
    elif (message.result is UNSET) == (message.error is UNSET):
        problem = "a message has a method, or exactly one of result and error"
    elif id_text is None:
        problem = "an answer has the id of a request"
    else:
        return Response(id_text, message.result, message.error)
    return Refused(InvalidRequest(problem), id_text, was_answer=message.method is UNSET)


def result_body(id: bytes | Raw, result: bytes | Raw) -> bytes:
    """Return the body of an answer."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', result, b"}"))


def with_meta(result: bytes, meta: bytes) -> bytes:
    """Return a result with `_meta` as its first member; unchanged unless the result is an object."""
    if result[:1] != b"{":
        return result
    rest = result[1:]
    return b"".join((b'{"_meta":', meta, b"" if rest[:1] == b"}" else b",", rest))


def error_body(id: bytes | Raw | None, error: SessiondError) -> bytes:
    """Return the body of an error; its id is null where none could be read."""
    failure = _encode(_Failure(error.code, error.message, error.data()))
    return b"".join((b'{"jsonrpc":"2.0","id":', id or _NULL, b',"error":', failure, b"}"))


def request_body(id: bytes, method: str, params: bytes) -> bytes:
    """Return the body of a request of the daemon."""
    head = (b'{"jsonrpc":"2.0","id":', id, b',"method":', _encode(method), b',"params":')
    return b"".join((*head, params, b"}"))


def notification_body(method: str, params: bytes | Raw) -> bytes:
    """Return the body of a notification."""
    return b"".join((b'{"jsonrpc":"2.0","method":', _encode(method), b',"params":', params, b"}"))
