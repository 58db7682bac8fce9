"""Vault: secrets encrypted with AES-256-GCM, bound to their place.

A record is bound to its file, namespace, key and revision, so a record that was swapped or put under
another key is refused. A seal binds all records of a file together, so a record that was rolled back,
removed or added is refused. Every encryption has a random nonce of its own.

Law: plaintext is in memory only between a call and its answer. The one thing that the vault cannot
notice is a whole file that was replaced by an earlier copy of itself.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.errors import SecretCorrupt, SecretKeyUnavailable
from sessiond.model.digests import sha256_hex
from sessiond.state.codec import SECRETS, encode_as
from sessiond.state.document import Document
from sessiond.state.keys import Key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class _Sealed(Struct, frozen=True):
    """Ciphertext with its nonce, both base64, and the id of its key."""

    key_id: str
    nonce: str
    data: str


def sealed_size(plaintext: bytes) -> Raw:
    """Return a stand-in as long as the record of a plaintext, for bounds."""
    data = "x" * (4 * ((len(plaintext) + _TAG_BYTES + 2) // 3))
    return Raw(msgspec.json.encode(_Sealed("x" * 16, "x" * 16, data)))


class Vault:
    """Encryption with the keys of a profile, the current one first."""

    def __init__(self, keys: Sequence[Key]) -> None:
        # The import takes longer than the rest of a daemon's start, so only a use of secrets has it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.current = keys[0]
        self._keys = {key.id: key for key in reversed(keys)}
        self._make: type[AESGCM] = AESGCM

    def seal_value(self, document: Document, key: str, revision: int, plaintext: bytes) -> Raw:
        """Return the encrypted value of a record."""
        bound = _bound(document, self.current.id, key, revision)
        return self._seal(plaintext, bound)

    def open_value(self, document: Document, key: str) -> bytes:
        """Return the plaintext of a record. Raises SecretCorrupt, SecretKeyUnavailable."""
        record = document.records[key]
        sealed = _sealed(record.value, document.namespace, key)
        bound = _bound(document, sealed.key_id, key, record.revision)
        return self._open(sealed, bound, document.namespace, key)

    def encode(self, document: Document) -> bytes:
        """Return the bytes of a file of secrets, with its seal."""
        seal = self._seal(b"", _bound_whole(document, self.current.id))
        return encode_as(SECRETS, document, seal)

    def require_sound(self, document: Document) -> None:
        """Raise SecretCorrupt for a file whose seal does not fit, SecretKeyUnavailable."""
        if not isinstance(document.seal, Raw):
            raise _corrupt(document.namespace, None)
        sealed = _sealed(document.seal, document.namespace, None)
        bound = _bound_whole(document, sealed.key_id)
        self._open(sealed, bound, document.namespace, None)

    def _seal(self, plaintext: bytes, bound: bytes) -> Raw:
        nonce = os.urandom(_NONCE_BYTES)
        data = self._make(self.current.data).encrypt(nonce, plaintext, bound)
        made = _Sealed(self.current.id, _text(nonce), _text(data))
        return Raw(msgspec.json.encode(made))

    def _open(self, sealed: _Sealed, bound: bytes, namespace: str, name: str | None) -> bytes:
        from cryptography.exceptions import InvalidTag

        key = self._keys.get(sealed.key_id)
        if key is None:
            raise SecretKeyUnavailable(
                f"the secrets of {namespace} were encrypted with the key {sealed.key_id[:16]}, and the"
                f" key at hand is {self.current.id}: bring the other key back, as a further line of"
                " the key file or of what the key command writes",
                reason="wrong_key",
            )
        try:
            nonce = base64.b64decode(sealed.nonce, validate=True)
            data = base64.b64decode(sealed.data, validate=True)
            return self._make(key.data).decrypt(nonce, data, bound)
        except (InvalidTag, ValueError):
            raise _corrupt(namespace, name) from None


def _bound(document: Document, key_id: str, key: str, revision: int) -> bytes:
    """Return what a record is bound to."""
    parts = ["sessiond secret", document.file_id, document.namespace, key, revision, key_id]
    return msgspec.json.encode(parts)


def _bound_whole(document: Document, key_id: str) -> bytes:
    """Return what the seal of a file is bound to: the file, its revision, and every record."""
    digest = sha256_hex(msgspec.json.encode(sorted(document.records.items())))
    parts = ["sessiond secrets", document.file_id, document.namespace, document.revision, key_id]
    return msgspec.json.encode([*parts, digest])


def _sealed(value: Raw, namespace: str, key: str | None) -> _Sealed:
    try:
        return typed.decode(value, _Sealed)
    except msgspec.DecodeError:
        raise _corrupt(namespace, key) from None


def _corrupt(namespace: str, key: str | None) -> SecretCorrupt:
    what = f"the secrets of {namespace}" if key is None else f"the secret {key} of {namespace}"
    return SecretCorrupt(
        f"{what} are not as they were stored: something changed, swapped or rolled back a record."
        f" Bring secrets/{namespace}.json back from a copy, or move it away and store them again",
        namespace=namespace,
        key=key,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
