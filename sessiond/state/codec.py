"""Codec: a namespace as the bytes of its file, and back.

    {"type":"sessiond_state","version":1,"namespace":"settings","revision":1768473000007,"records":{
    "theme":{"revision":1768473000007,"created_at":"…","updated_at":"…","value":"dark"}}}

The file of a namespace of secrets has another type, an id of its own, and a seal (`vault`).

Law: a value is written as the bytes that came, and read as the bytes that were written.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.ids import is_state_key
from sessiond.state.document import ABSENT, Document, Record

VERSION: Final = 1


class Damaged(Exception):
    """File that is no document of its namespace; the text says why, without content."""


class NewerVersion(Exception):
    """Document that a newer sessiond wrote."""


STATE: Final = "sessiond_state"
SECRETS: Final = "sessiond_secrets"


class _Head(Struct):
    type: str
    version: int


class _File(Struct, omit_defaults=True):
    type: str
    version: int
    namespace: str
    revision: int
    records: dict[str, Record]
    file_id: str = ""
    seal: Raw | UnsetType = UNSET


def encode(document: Document) -> bytes:
    """Return the bytes of the file of a namespace of values."""
    return encode_as(STATE, document)


def encode_as(kind: str, document: Document, seal: Raw | UnsetType = UNSET) -> bytes:
    """Return the bytes of the file of a namespace."""
    file = _File(
        kind,
        VERSION,
        document.namespace,
        document.revision,
        document.records,
        document.file_id,
        seal,
    )
    return msgspec.json.encode(file) + b"\n"


def decode_as(kind: str, data: bytes, namespace: str) -> Document:
    """Return the document of a file. Raises Damaged, NewerVersion."""
    try:
        # The decoder leaves the bytes of values unchecked.
        data.decode()
        head = typed.decode(data, _Head)
        if head.type == kind and head.version > VERSION:
            raise NewerVersion
        file = typed.decode(data, _File)
    except UnicodeDecodeError:
        raise Damaged("it is not UTF-8") from None
    except msgspec.ValidationError:
        raise Damaged("it is JSON, but no document of the state store") from None
    except (msgspec.DecodeError, RecursionError):
        raise Damaged("it is not JSON") from None
    if file.namespace != namespace:
        raise Damaged("it is the document of another namespace")
    if (file.type, file.version) != (kind, VERSION) or not _is_sound(file):
        raise Damaged("it is JSON, but no document of the state store")
    records = {key: _owned(record) for key, record in file.records.items()}
    seal = file.seal if isinstance(file.seal, UnsetType) else file.seal.copy()
    return Document(namespace, file.revision, records, file_id=file.file_id, seal=seal)


def _is_sound(file: _File) -> bool:
    revisions = {record.revision for record in file.records.values()}
    return (
        len(revisions) == len(file.records)
        and all(ABSENT < revision <= file.revision for revision in revisions)
        and all(map(is_state_key, file.records))
    )


def _owned(record: Record) -> Record:
    """Return the record with a value of its own, which does not keep the whole file in memory."""
    return msgspec.structs.replace(record, value=record.value.copy())
