"""Secret store: encrypted documents and the keys that open them. Blocking, for worker threads.

Law: the documents in memory are encrypted, too. The keys are read at the first use of a secret, and
again where the configuration names another source, or where a record needs a key that is not at hand.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiond.errors import SecretKeyUnavailable
from sessiond.state.document import Document
from sessiond.state.documents import Documents
from sessiond.state.key_file import KeyFile, KeySource
from sessiond.state.keys import Key, KeySettings, keys_in, new_key
from sessiond.state.vault import Vault
from sessiond.visible import printable


class SecretStore:
    """Secrets of one profile."""

    def __init__(
        self,
        source: KeySource,
        read: Callable[[Callable[[Document], bytes]], Documents],
    ) -> None:
        """Read the documents, which stay encrypted. `read` takes what encodes a changed one."""
        self._source = source
        self._used: KeySettings | None = None
        self._vault: Vault | None = None
        self.documents = read(self._encode)

    @property
    def settings(self) -> KeySettings:
        """Source of the keys as it is configured now."""
        return self._source.settings()

    @property
    def vault(self) -> Vault | None:
        """The vault; None before the keys were read, or if they come from another source now."""
        return self._vault if self._used == self._source.settings() else None

    def new_file_id(self) -> str:
        """Return the id of a new file."""
        return self._source.files.random_digits()

    def key_file(self) -> KeyFile:
        """Return the key file."""
        return self._source.file()

    def read_keys(self) -> list[Key]:
        """Return the keys, the current one first; make one where nothing was encrypted yet.

        Raises SecretKeyUnavailable, StorageError.
        """
        settings = self._source.settings()
        if settings.command:
            assert settings.run is not None, "the configuration of a command comes with its runner"
            return keys_in(settings.run(settings.command), "the key command")
        file = self.key_file()
        keys = file.read()
        if keys is not None:
            return keys
        if self._holds_secrets():
            path = printable(file.path)
            raise SecretKeyUnavailable(
                f"the key file {path} is missing, and secrets were encrypted with it: bring it back"
                " from a copy, or name its place with secrets.key_file in the configuration",
                reason="no_key",
                path=path,
            )
        return file.create(new_key())

    def unlock(self) -> Vault:
        """Read the keys; return the vault. Raises SecretKeyUnavailable, StorageError."""
        settings = self._source.settings()
        return self.use(self.read_keys(), settings)

    def use(self, keys: list[Key], settings: KeySettings) -> Vault:
        """Go on with these keys of a source; return the vault."""
        self._vault, self._used = Vault(keys), settings
        return self._vault

    def _holds_secrets(self) -> bool:
        documents = self.documents
        return bool(documents.by_namespace) or not documents.is_ready()

    def _encode(self, document: Document) -> bytes:
        assert self._vault is not None, "a change of a secret comes with a vault"
        return self._vault.encode(document)
