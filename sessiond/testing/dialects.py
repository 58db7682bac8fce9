"""Conformance suite of dialects: the promises of `Dialect`, checked on real files.

`check_dialect(dialect, data)` puts one file of `tests/samples/<dialect>/` through every promise of
`Dialect`. Run the suite for a new dialect on files of the program that writes it. Each promise is
also a function, so that a failure names the broken promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from sessiond import typed
from sessiond.dialects import sniff
from sessiond.dialects.base import BadHeader, BadLine, ContextLine, Dialect, current_lines
from sessiond.errors import EntryInvalid
from sessiond.limits import NESTING_MAX, PREVIEW_CHARS
from sessiond.model.entries import ENTRY_TYPES, Entry, Opaque
from sessiond.model.row import MESSAGE_KINDS, Kind

__all__ = ["check_dialect", "entry_of", "lines_of"]

_ENVELOPE: Final = frozenset({"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"})
_UNKNOWN: Final = frozenset({Kind.OPAQUE, Kind.CUSTOM})
# Names that one dialect or another has in its envelope.
_TAKEN: Final = ("parentId", "kind", "ts", "data", "custom_type", "provider_id", "entryId")
_GARBAGE: Final = (
    b"",
    b" ",
    b"{",
    b"null",
    b"17",
    b"[]",
    b'"text"',
    b"{}",
    b'{"type":"message"}',
    b'{"id":"a"}',
    b'{"type":1,"id":"a"}',
    b'{"type":"message","id":2}',
    b'{"type":"message","id":""}',
    b'{"type":"message","id":"","message":{"role":"user","content":"hi"}}',
    b'{"type":"custom","id":""}',
    b'{"type":"message","id":"a"}}',
    b'{"type":"message","id":"a","x":"\xff"}',
    b'{"type":"message","id":"a","message":{"role":"user","content":"\xff"}}',
    b'\xef\xbb\xbf{"type":"message","id":"a"}',
    b"{" * 100_000,
    b'{"type":"message","id":"a","x":' + b"[" * 100_000,
)
# Times as other programs may write them.
_TIMES: Final = ("", "yesterday", 1736937000000, -5, 1e300)


def check_dialect(dialect: Dialect, data: bytes) -> None:
    """Raise AssertionError for the first promise that is broken for this file."""
    lines = lines_of(dialect, data)
    check_header(dialect, lines[0])
    dialect = dialect.for_file(dialect.decode_header(lines[0]))
    assert list(current_lines(dialect, lines)) == lines, "a file of today's version is not migrated"
    for number, line in enumerate(lines[1:], start=2):
        for check in _LINE_CHECKS:
            try:
                check(dialect, line)
            except AssertionError as error:
                raise AssertionError(f"line {number}: {check.__name__}: {error}") from error


def lines_of(dialect: Dialect, data: bytes) -> list[bytes]:
    """Return the lines of a file, migrated to the dialect's current version."""
    assert data.endswith(b"\n"), "a sample ends with a newline"
    lines = (line.removesuffix(b"\r") for line in data.split(b"\n")[:-1])
    return list(current_lines(dialect, lines))


def entry_of(dialect: Dialect, line: bytes) -> Entry | Opaque | None:
    """Return the entry that a client would have sent for a line; None if none would be accepted."""
    wire = typed.decode(dialect.wire(line), dict[str, Raw])
    word = typed.decode(wire["type"], str)
    kind = ENTRY_TYPES.get(word)
    if dialect.row(line).kind == Kind.OPAQUE and kind is not None:
        return None
    if kind is None:
        envelope = {name: typed.decode(wire[name]) for name in _ENVELOPE & wire.keys()}
        own = {name: value for name, value in wire.items() if name not in _ENVELOPE}
        return Opaque(**envelope, fields=own)
    try:
        return typed.decode(dialect.wire(line), kind)
    except msgspec.ValidationError:
        return None


def check_header(dialect: Dialect, line: bytes) -> None:
    """Check that a header is recognised, survives a rewrite, and that garbage is not a header."""
    header = dialect.decode_header(line)
    found = sniff(line)
    assert found is not None, "sniff does not know the header"
    assert found.name == dialect.name, "sniff takes the header for another dialect's"
    again = dialect.encode_header(header)
    assert b"\n" not in again, "a header is one line"
    assert dialect.decode_header(again) == header, "a header survives being written"
    assert _is_header(dialect, _nested(line, NESTING_MAX - 1)), "512 levels are taken"
    deep = _nested(line, NESTING_MAX)
    for garbage in (*_GARBAGE, line[:-1], b"\xef\xbb\xbf" + line, deep):
        assert not _is_header(dialect, garbage), "garbage is taken for a header"


def check_row(dialect: Dialect, line: bytes) -> None:
    """Check that the index and the wire agree about an entry."""
    row = dialect.row(line)
    wire = _values(dialect.wire(line))
    assert b"\n" not in dialect.wire(line), "an entry on the wire is one line"
    assert isinstance(wire["type"], str), "type is a text"
    assert wire["id"] == row.id, "id on the wire is the id of the index"
    assert wire.get("parent_id") == row.parent_id, "so is the parent"
    assert dialect.row(line + b"\r") == row, "a trailing CR means nothing"


def check_garbage(dialect: Dialect, line: bytes) -> None:
    """Check that a torn or broken line raises a BadLine that does not show the content."""
    cuts = {1, len(line) // 3, len(line) // 2, len(line) - 1}
    for bad in (*_GARBAGE, *(line[:cut] for cut in cuts), b"x" + line, line + b"x"):
        try:
            dialect.row(bad)
        except BadLine as error:
            shown = str(error).encode()
            assert shown, "a BadLine says why"
            assert bad[:24] not in shown or len(bad) < 24, "a BadLine shows content"
        else:
            raise AssertionError("garbage is taken for an entry")


def check_unknown(dialect: Dialect, line: bytes) -> None:
    """Check that unknown fields and types survive byte for byte."""
    row = dialect.row(line)
    grown = line[:-1] + b',"zz_new":{"b":1.50,"a":["\\ud83d\\ude00",null]}}'
    assert dialect.row(grown) == row, "an unknown field changes nothing"
    assert b'"zz_new":{"b":1.50,"a":["\\ud83d\\ude00",null]}' in dialect.wire(grown)
    strange = b'{"type":"zz_new","id":"q1","more":{"n":1.50}}'
    assert dialect.row(strange).kind in _UNKNOWN, "an unknown type is an entry of no effect"
    assert b'"more":{"n":1.50}' in dialect.wire(strange)


def check_taken_names(dialect: Dialect, line: bytes) -> None:
    """Check that a field of an unknown type is stored or refused by its name, never dropped."""
    for name in _TAKEN:
        entry = Opaque(type="zz_new", id=dialect.row(line).id, fields={name: Raw(b'"zz"')})
        try:
            dialect.row_of(entry)
        except EntryInvalid as error:
            kept_or_named = error.data()["path"] == name
        else:
            kept_or_named = _values(dialect.wire(dialect.encode(entry))).get(name) == "zz"
        assert kept_or_named, "a field is lost"


def check_surrogates(dialect: Dialect, line: bytes) -> None:
    """Check that half a surrogate pair, legal in JSON's grammar, makes no line unreadable."""
    row = dialect.row(line)
    grown = line[:-1] + rb',"zz":"\ud83d then \uDE00 and \\ud83d"}'
    assert dialect.row(grown) == row, "a lone surrogate changes nothing"
    assert rb'"\ud83d then \uDE00 and \\ud83d"' in dialect.wire(grown), "its spelling is kept"
    one = ContextLine(row.id, row.kind, line)
    other = ContextLine(row.id, row.kind, grown)
    if row.kind in MESSAGE_KINDS:
        assert dialect.context([other]) == dialect.context([one])


def check_nesting(dialect: Dialect, line: bytes) -> None:
    """Check that only lines nested too deeply are refused, on any stack of any interpreter."""
    row = dialect.row(line)
    assert dialect.row(_nested(line, NESTING_MAX - 1)) == row, "512 levels are taken"
    try:
        dialect.row(_nested(line, NESTING_MAX))
    except BadLine as error:
        refusal = str(error)
    else:
        raise AssertionError("513 levels are taken")
    assert str(NESTING_MAX) in refusal, "the refusal names the bound"


def check_rewrite(dialect: Dialect, line: bytes) -> None:
    """Check that an entry read from a line can be written, with equal meaning."""
    entry = entry_of(dialect, line)
    if entry is None:
        return
    row = dialect.row(line)
    again = dialect.encode(entry)
    try:
        staged = dialect.row_of(entry)
    except EntryInvalid:
        # A file may hold an entry that sessiond would not write; its row must still match.
        staged = row
    assert staged == row, "the row of an entry is the row of its line"
    assert dialect.row(again) == row, "an entry written again has the same row"
    assert _values(dialect.wire(again)) == _values(dialect.wire(line)), "and the same fields"


def check_times(dialect: Dialect, line: bytes) -> None:
    """Check that an entry is written as an entry, also with a time that is none."""
    entry = entry_of(dialect, line)
    if entry is None:
        return
    for time in _TIMES:
        written = dialect.encode(msgspec.structs.replace(entry, timestamp=time))
        try:
            assert dialect.row(written).id == dialect.row(line).id
        except BadLine as bad:
            raise AssertionError(f"a line with the time {time!r} {bad}") from bad


def check_one_line(dialect: Dialect, line: bytes) -> None:
    """Check that a payload with newlines between its tokens is stored on one line."""
    entry = entry_of(dialect, line)
    if entry is None:
        return
    pretty = msgspec.structs.replace(entry, **_pretty(entry))
    stored = dialect.encode(pretty)
    assert b"\n" not in stored, "an entry is one line"
    assert _values(stored) == _values(dialect.encode(entry)), "and means the same"
    assert dialect.row(stored) == dialect.row(line)


def check_views(dialect: Dialect, line: bytes) -> None:
    """Check that the small views answer for every entry, and a message is a slice of its line."""
    row = dialect.row(line)
    preview = dialect.preview(line)
    assert len(preview) <= PREVIEW_CHARS + len("..."), "a preview is short"
    assert "\n" not in preview, "and one line"
    stamp = dialect.timestamp(line)
    assert stamp == "" or (stamp.endswith("Z") and len(stamp) == len("2026-01-15T10:30:00.000Z"))
    named = dialect.model(line)
    if row.kind == Kind.THINKING:
        assert row.setting == dialect.thinking_level(line), "a level has a name, which the row says"
    else:
        assert row.setting == named, "model names what the row says"
    messages = dialect.context([ContextLine(row.id, row.kind, line)])
    for message in messages:
        assert b"\n" not in message.body, "a message is one line"
        assert isinstance(_values(message.body)["role"], str), "a message has a role"
        assert message.source == row.id, "a message names its entry"
    if row.kind in MESSAGE_KINDS:
        payload = typed.decode(dialect.wire(line), dict[str, Raw])["message"]
        # A content that is null may be written out; every other payload passes as bytes.
        if _values(bytes(payload)).get("content", "") is not None:
            assert [message.body for message in messages] == [bytes(payload)], "payload changed"
    assert (dialect.reading(line) is None) == (row.kind not in MESSAGE_KINDS)


_LINE_CHECKS: Final[tuple[Callable[[Dialect, bytes], None], ...]] = (
    check_row,
    check_garbage,
    check_unknown,
    check_taken_names,
    check_surrogates,
    check_nesting,
    check_rewrite,
    check_times,
    check_one_line,
    check_views,
)


def _nested(line: bytes, levels: int) -> bytes:
    """Return the line with a member that holds arrays inside each other."""
    return line[:-1] + b',"zz":' + b"[" * levels + b"]" * levels + b"}"


def _is_header(dialect: Dialect, line: bytes) -> bool:
    try:
        dialect.decode_header(line)
    except BadHeader:
        return False
    return True


def _values(encoded: bytes) -> dict[str, Any]:
    return typed.decode(encoded, dict[str, Any])


def _pretty(entry: Entry | Opaque) -> dict[str, Any]:
    """Return the payload fields of an entry, spread over lines."""
    if isinstance(entry, Opaque):
        return {"fields": {name: _spread(value) for name, value in entry.fields.items()}}
    found: dict[str, Any] = {}
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        if isinstance(value, Raw):
            found[name] = _spread(value)
        elif name == "messages" and value is not UNSET:
            found[name] = [_spread(message) for message in value]
    return found


def _spread(value: Raw) -> Raw:
    return Raw(b"\n" + msgspec.json.format(bytes(value), indent=2) + b"\n")
