"""Secrets of a profile as connections use them.

Rule 1: a secret is decrypted for its answer alone. Lists, changes and reports have names only.

Rule 2: the file of a namespace is checked as a whole before its first use, and refused if it is not
as it was stored.

Rule 3: a rotation first stores the new key beside the old one, then encrypts every file anew, then
drops the old key. Both keys are known in between, and the next start goes on with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, UnsetType

from sessiond.errors import SecretKeyUnavailable, SessiondError, StorageError, as_outage
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.states.states import States
from sessiond.service.states.writer import Act
from sessiond.state.document import ABSENT, Document, Draft, Record, Write
from sessiond.state.keys import Key, new_key
from sessiond.state.secret_store import SecretStore
from sessiond.state.vault import Vault, sealed_size

T = TypeVar("T")


class Opened(Struct, frozen=True):
    """Secret and its record; None for a secret that does not exist."""

    value: bytes | None
    record: Record | None

    def __repr__(self) -> str:
        """Return text without the secret."""
        return "Opened(…)"


class StoredSecret(Struct, frozen=True):
    """Revision of a secret that was stored."""

    revision: int
    created: bool


class Rotated(Struct, frozen=True):
    """Number of secrets that were encrypted anew, and of the keys that are in use."""

    secrets: int
    keys: int


class Secrets:
    """The secrets of one profile."""

    def __init__(self, store: SecretStore, environment: Environment, tasks: TaskGroup) -> None:
        self.states = States(store.documents, environment, tasks)
        self._store = store
        self._environment = environment
        self._sound: dict[str, int] = {}
        """Number of reads of each sound namespace, when the namespace was found sound."""
        self._unlocking = anyio.Lock()
        self._rotating = anyio.Lock()

    # -- calls -------------------------------------------------------------------------

    async def set(
        self, namespace: str, key: str, value: bytes, expected: int | UnsetType | None
    ) -> StoredSecret:
        """Store a secret. Raises RevisionMismatch, TooLarge, SecretKeyUnavailable, SecretCorrupt."""

        def act(draft: Draft, vault: Vault) -> StoredSecret:
            if not draft.file_id:
                draft.file_id = self._store.new_file_id()
                # A file that this daemon makes is sound.
                self._note_sound(namespace)
            created = draft.get(key) is None
            write = Write(key, sealed_size(value), expected=expected)
            record = draft.put(
                write, lambda revision: vault.seal_value(draft, key, revision, value)
            )
            return StoredSecret(record.revision, created)

        return await self._change(namespace, act)

    async def delete(
        self, namespace: str, key: str, expected: int | UnsetType | None
    ) -> tuple[bool, int]:
        """Delete a secret; return whether it existed, and the revision of the namespace.

        Raises RevisionMismatch, SecretKeyUnavailable, SecretCorrupt.
        """

        def act(draft: Draft, _vault: Vault) -> tuple[bool, int]:
            return draft.delete(key, expected), draft.revision

        return await self._change(namespace, act)

    async def get(self, ticket: Ticket, namespace: str, key: str) -> Opened:
        """Return a secret for a request. Raises SecretKeyUnavailable, SecretCorrupt."""
        look = partial(self.states.look, ticket)
        # Without secrets no key is needed.
        if not await look(namespace, lambda draft: draft.revision != ABSENT):
            return Opened(None, None)

        def act(draft: Draft, vault: Vault) -> Opened:
            record = draft.get(key)
            return Opened(vault.open_value(draft, key) if record else None, record)

        return await self._with_vault(look, namespace, act)

    async def resume(self) -> None:
        """Finish a rotation that an earlier daemon began; remove a key file that it left unfinished.

        Reports what keeps a rotation from its end.
        """
        if not self._store.documents.by_namespace:
            # A start without secrets does not ask for the place of the key.
            return
        try:
            with as_outage():
                settings = self._store.settings
                await to_thread.run_sync(self._store.key_file().remove_unfinished)
                if settings.command or settings.is_shared:
                    return
                async with self._rotating:
                    keys = await to_thread.run_sync(self._store.key_file().read)
                    if keys is not None and len(keys) > 1:
                        vault = await to_thread.run_sync(self._store.use, keys, settings)
                        await self._encrypt_anew(vault)
                        await to_thread.run_sync(self._store.key_file().write, keys[:1])
        except SessiondError as error:
            self._environment.report_trouble(f"a rotation of the secrets' key waits: {error}")

    async def rotate(self) -> Rotated:
        """Encrypt all secrets with a new key. Raises SecretKeyUnavailable, SecretCorrupt.

        With a command the new key is the first one that the command writes.
        """
        done: list[Rotated] = []
        with CancelScope(shield=True):
            async with self._rotating:
                done.append(await self._rotate())
        return done[0]

    async def _rotate(self) -> Rotated:
        store, settings = self._store, self._store.settings
        if not settings.command:
            # A key that cannot open what is stored must not be followed by one more.
            await self._with_keys(self._check_all)
            await to_thread.run_sync(store.key_file().add, new_key())
        count, keys = await self._with_keys(self._encrypt_anew)
        if not (settings.command or settings.is_shared):
            keys = keys[:1]
            await to_thread.run_sync(store.key_file().write, keys)
            await to_thread.run_sync(store.use, keys, settings)
        return Rotated(count, len(keys))

    async def _with_keys(self, work: Callable[[Vault], Awaitable[T]]) -> tuple[T, list[Key]]:
        """Return the result of work on all secrets with the keys that are there now, and these keys.

        The work begins anew if a daemon with the same source of keys has made one more meanwhile.
        """
        store, settings = self._store, self._store.settings
        keys = await to_thread.run_sync(store.read_keys)
        while True:
            vault = await to_thread.run_sync(store.use, keys, settings)
            try:
                return await work(vault), keys
            except SecretKeyUnavailable:
                before, keys = keys, await to_thread.run_sync(store.read_keys)
                if [key.id for key in keys] == [key.id for key in before]:
                    raise

    async def _all_documents(self) -> Sequence[Document]:
        """Return the documents of all namespaces as they are stored. Raises StorageError."""
        found = await self.states.all_documents()
        if found.stale_since is not None:
            raise StorageError(
                "the database does not answer, and may have more secrets: try again",
                errno="EAGAIN",
                path="secrets",
            )
        return found.documents

    async def _check_all(self, vault: Vault) -> None:
        for document in await self._all_documents():
            self._require_sound(document, vault)

    async def _encrypt_anew(self, vault: Vault) -> int:
        """Encrypt every file with the current key of a vault; return the number of secrets."""
        count = 0
        for document in await self._all_documents():

            def act(draft: Draft) -> int:
                self._require_sound(draft, vault)
                for key, record in list(draft.records.items()):
                    value = vault.open_value(draft, key)
                    draft.rewrite(key, vault.seal_value(draft, key, record.revision, value))
                draft.is_rewritten = True
                return len(draft.records)

            count += await self.states.carry_out(document.namespace, act)
        return count

    # -- the vault ---------------------------------------------------------------------

    async def _change(self, namespace: str, act: Callable[[Draft, Vault], T]) -> T:
        return await self._with_vault(self.states.carry_out, namespace, act)

    async def _with_vault(
        self,
        carry_out: Callable[[str, Act], Awaitable[Any]],
        namespace: str,
        act: Callable[[Draft, Vault], T],
    ) -> T:
        """Carry a call out; read the keys again, once, if one of them is not at hand."""

        def with_vault(vault: Vault) -> Callable[[Draft], T]:
            def run(draft: Draft) -> T:
                self._require_sound(draft, vault)
                return act(draft, vault)

            return run

        try:
            done: T = await carry_out(namespace, with_vault(await self._unlocked()))
        except SecretKeyUnavailable as error:
            if error.data().get("reason") != "wrong_key":
                raise
            async with self._unlocking:
                fresh = await to_thread.run_sync(self._store.unlock)
            done = await carry_out(namespace, with_vault(fresh))
        return done

    async def _unlocked(self) -> Vault:
        if not self._store.documents.is_ready():
            # Else a key would be made although something is encrypted that cannot be read now.
            await self.states.all_documents()
        async with self._unlocking:
            vault = self._store.vault
            return await to_thread.run_sync(self._store.unlock) if vault is None else vault

    def _require_sound(self, document: Document, vault: Vault) -> None:
        """Raise SecretCorrupt, SecretKeyUnavailable for a file that is not as it was stored."""
        if document.revision == ABSENT:
            return
        documents, namespace = self._store.documents, document.namespace
        if self._sound.get(namespace) != documents.loaded[namespace]:
            vault.require_sound(documents.by_namespace[namespace])
            self._note_sound(namespace)

    def _note_sound(self, namespace: str) -> None:
        self._sound[namespace] = self._store.documents.loaded[namespace]
