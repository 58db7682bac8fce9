"""The session as one JSON document, which stands for itself: no part names a file of the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, Literal, get_args

import msgspec

from sessiond.dialects.lenient_json import with_field
from sessiond.limits import REPLAY_CHUNK_BYTES
from sessiond.model.row import Kind
from sessiond.service.exporting.documents.source import DocumentSource

Part = Literal["session", "tags", "heads", "labels", "tree", "entries"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
_encode: Final = msgspec.json.Encoder().encode


def json_document(source: DocumentSource, parts: Collection[Part]) -> Iterator[bytes]:
    """Yield the document in pieces. Raise StorageError, InvalidParams."""
    head = {"format": "sessiond.session", "version": 1, "dialect": source.dialect.name}
    yield _encode(head)[:-1]
    if "session" in parts:
        yield b',"session":' + _encode(_session(source, tags="tags" in parts))
    elif "tags" in parts:
        yield b',"tags":' + _encode(source.value(source.state.info.tags))
    if "heads" in parts:
        yield b',"heads":' + _encode(source.state.heads)
    if "labels" in parts:
        names = source.session.names
        rows = [{"entry_id": names[seq], "label": said} for seq, said in source.labels().items()]
        yield b',"labels":' + _encode(rows)
    if "tree" in parts:
        yield b',"tree":['
        yield from _nodes(source)
        yield b"]"
    if "entries" in parts:
        yield b',"entries":['
        yield from _entries(source)
        yield b"]"
    yield b"}\n"


def _session(source: DocumentSource, *, tags: bool) -> dict[str, Any]:
    """Return the description of the session without where its file lies."""
    found: dict[str, Any] = source.value(source.state.info)
    left_out = {"path", "heads"} if tags else {"path", "heads", "tags"}
    return {name: value for name, value in found.items() if name not in left_out}


def _nodes(source: DocumentSource) -> Iterator[bytes]:
    """Yield the nodes of the tree, in the order of the file, each with the parent it stands below."""
    session, before = source.session, b"\n"
    for seq in range(1, source.state.upto + 1):
        if session.is_node(seq):
            parent_id = session.id_of(session.parents[seq])
            yield before + _encode({"id": session.names[seq], "parent_id": parent_id, "seq": seq})
            before = b",\n"


def _entries(source: DocumentSource) -> Iterator[bytes]:
    """Yield the entries in pieces: a long one alone, of which each copy would be as long."""
    session, before = source.session, b"\n"
    for seq, line in source.lines(filter(session.is_entry, range(1, source.state.upto + 1))):
        entry = source.dialect.wire(line)
        del line
        if session.kinds[seq] == Kind.INFO and session.rules.whole_info:
            # The id of such a line is a digest of the line, which redaction changes.
            entry = with_field(entry, "id", _encode(session.names[seq]))
        head = b'%b{"seq":%d,"entry":' % (before, seq)
        if len(entry) < REPLAY_CHUNK_BYTES:
            yield b"%b%b}" % (head, entry)
        else:
            yield head
            yield entry
            yield b"}"
        before = b",\n"
