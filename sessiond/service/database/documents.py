"""State store and secrets in a database: each namespace is one row, which daemons replace in turn.

Law: a daemon replaces only the row that it has seen, which the row's token tells. A token is random and
never used twice, so a row that was put back from a copy is another row, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic
from typing import Final

from sessiond.errors import StorageError
from sessiond.limits import DATABASE_CLOCK_SECONDS, STATE_REVISIONS_RESERVED
from sessiond.model.times import unix_ms
from sessiond.service.database.database import (
    NO_TOKEN,
    OF_DOCUMENTS,
    SessionDatabase,
    StoredDocument,
)
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.watching import DatabaseWatches
from sessiond.service.environment import Environment
from sessiond.state.codec import Damaged, NewerVersion, decode_as
from sessiond.state.document import ABSENT, Change, Document, Draft, Moment
from sessiond.state.documents import Documents
from sessiond.state.folder import Aside

_TOKEN_BYTES: Final = 16
REVISIONS: Final = "state_revision"
"""Name under which revisions are reserved."""


class DocumentRows:
    """Rows of one kind of document. Blocking; one thread at a time per namespace."""

    def __init__(self, database: SessionDatabase, kind: str) -> None:
        self._database = database
        self._kind = kind
        self._seen: dict[str, bytes] = {}

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a row. Raises StorageError."""
        return sorted(self._database.document_tokens(self._kind))

    def aside(self) -> list[Aside]:
        """Return no files: a damaged row stays where it is."""
        return []

    def settle(self) -> None:
        """Do nothing: a row that can be read is durable."""

    def behind(self) -> list[str]:
        """Return the namespaces whose rows are not those that were seen. Raises StorageError."""
        there = self._database.document_tokens(self._kind)
        return sorted(
            namespace
            for namespace in there.keys() | self._seen.keys()
            if there.get(namespace, NO_TOKEN) != self._seen.get(namespace, NO_TOKEN)
        )

    def load(self, namespace: str) -> Document | None:
        """Return the document of a namespace; None without one. Raises StorageError."""
        found = self._database.document(self._kind, namespace, NO_TOKEN)
        return None if found is None else self._read(namespace, found)

    def look(self, namespace: str) -> tuple[bool, Document | None]:
        """Return whether the row is not the one that was seen, and its document. Raises StorageError."""
        seen = self._seen.get(namespace, NO_TOKEN)
        found = self._database.document(self._kind, namespace, seen)
        return (False, None) if found is None else (True, self._read(namespace, found))

    def forget(self, namespace: str) -> None:
        """Forget which row was seen, so that the next look reads the row again."""
        # No row has this token, and where no row is left, that is not what was seen either.
        self._seen[namespace] = new_token()

    def replace(self, namespace: str, data: bytes, changes: Sequence[Change] = ()) -> bool:
        """Replace the row that was seen; return False if there is another row by now.

        If the answer is lost, `changes` tell whether the row that is there by now goes on from `data`.
        Raises StorageError: the row has no value that they have set then, unless the database cannot even
        be asked.
        """
        token, seen = new_token(), self._seen.get(namespace, NO_TOKEN)
        try:
            is_stored = self._database.put_document(self._kind, namespace, seen, token, data)
        except StorageError:
            # The answer was lost, and the server may still carry the statement out.
            token = new_token()
            there = self._database.fence_document(self._kind, namespace, token)
            if there != data:
                # What the row has now is to be read.
                token = self._seen[namespace] = NO_TOKEN
                if not self._has(namespace, there, changes):
                    raise
            is_stored = True
        if is_stored:
            self._seen[namespace] = token
        return is_stored

    def _has(self, namespace: str, data: bytes, changes: Sequence[Change]) -> bool:
        """Return whether a row has values that these changes have set: no other value has their revisions."""
        try:
            found = decode_as(self._kind, data, namespace).records if data else {}
        except (Damaged, NewerVersion):
            return False
        revisions = {record.revision for record in found.values()}
        return any(one.change == "set" and one.revision in revisions for one in changes)

    def now_ms(self) -> int:
        """Return the milliseconds since 1970 by the database's clock. Raises StorageError."""
        return self._database.now_ns() // 1_000_000

    def reserve(self, least: int) -> int:
        """Reserve revisions from `least` on or behind; return the first. Raises StorageError."""
        return self._database.reserve(REVISIONS, least, STATE_REVISIONS_RESERVED)

    def _read(self, namespace: str, found: StoredDocument) -> Document | None:
        document = None
        if found.data:
            try:
                document = decode_as(self._kind, found.data, namespace)
            except (Damaged, NewerVersion) as error:
                why = str(error) or "it was written by a newer sessiond"
                raise StorageError(
                    f"the row of the namespace {namespace} ({self._kind}) in the table documents"
                    f" cannot be used: {why}; bring the row back from a backup, or delete it to"
                    " begin without it",
                    errno="EINVAL",
                    path=self._database.name,
                    retryable=False,
                ) from None
        self._seen[namespace] = found.token
        return document


class SharedDocuments(Documents):
    """Documents of one profile that several daemons change."""

    is_shared = True

    def __init__(
        self,
        rows: DocumentRows,
        watches: DatabaseWatches,
        doorbell: Doorbell,
        environment: Environment,
        encode: Callable[[Document], bytes],
    ) -> None:
        """Read every row."""
        self._rows = rows
        self._watches = watches
        self._doorbell = doorbell
        self._looked: dict[str, tuple[int, int | None]] = {}
        """Time of the last look at each namespace, and the first revision that the look reserved."""
        # If rows are lost, the clock still exceeds their revisions.
        first_revision = unix_ms(environment.now()) or 0
        self._set_clock()
        super().__init__(rows, first_revision, environment.report_trouble, encode)

    def moment(self, now: str, namespace: str | None = None) -> Moment:
        """Return the moment of a draft: the time of the look before, which reserved the revisions.

        Without a reservation no value had expired at that time, so the draft drops none.
        """
        looked = None if namespace is None else self._looked.pop(namespace, None)
        if looked is None:
            return super().moment(now)
        at_ms, first = looked
        return Moment(now, at_ms, self.next_revision if first is None else count(first).__next__)

    def ms_at(self, now: str) -> int:
        """Return the time by the database's clock, which all daemons have, wherever their own clocks are."""
        del now
        return self._clock_ms + int((monotonic() - self._clock_at) * 1000)

    def newest_revision(self) -> int:
        """Reserve a revision that is later than those of all daemons. Raises StorageError."""
        return self._rows.reserve(max(self.revision + 1, self._us_now()))

    def _us_now(self) -> int:
        """Return the microseconds since 1970 by the database's clock.

        A revision is no smaller: a database that was brought back to an earlier state has forgotten which ones
        it gave.
        """
        return self.ms_at("") * 1000

    def _set_clock(self) -> None:
        self._clock_ms, self._clock_at = self._rows.now_ms(), monotonic()

    def look(self, namespace: str, now: str, *, changes: bool) -> Sequence[Change]:
        """Take over what other daemons have written; reserve revisions if a draft changes anything."""
        self._looked.pop(namespace, None)
        try:
            if monotonic() - self._clock_at > DATABASE_CLOCK_SECONDS:
                self._set_clock()
            is_other, document = self._rows.look(namespace)
        except StorageError:
            self.stale_since = self.stale_since or now
            raise
        self.stale_since = None
        before = self.by_namespace.get(namespace)
        known = document if is_other else before
        at_ms, first = self.ms_at(now), None
        if changes or (known is not None and known.is_due(at_ms)):
            first = self._reserve_behind(namespace, known)
        found: Sequence[Change] = ()
        if is_other:
            before = before or Document(namespace)
            found = _changes(before, document or Document(namespace, before.revision))
            self._take(namespace, document)
        self._looked[namespace] = at_ms, first
        return found

    def _reserve_behind(self, namespace: str, document: Document | None) -> int:
        """Reserve revisions for a draft of a document; return the first. Raises StorageError.

        If the database does not answer, the next look reads the row again, since nothing was taken over yet.
        """
        known = ABSENT if document is None else document.revision
        try:
            return self._rows.reserve(max(self.revision + 1, known + 1, self._us_now()))
        except StorageError:
            self._rows.forget(namespace)
            raise

    def _take(self, namespace: str, document: Document | None) -> None:
        self.loaded[namespace] += 1
        if document is None:
            # The row was deleted by hand, or the database was put back from a copy.
            self.by_namespace.pop(namespace, None)
            return
        self.by_namespace[namespace] = document
        self.revision = max(self.revision, document.revision)
        self.committed_revision = max(self.committed_revision, document.revision)

    def behind(self, now: str) -> list[str]:
        """Return the namespaces that other daemons have changed. Blocking. Raises StorageError."""
        try:
            behind = self._rows.behind()
        except StorageError:
            self.stale_since = self.stale_since or now
            raise
        self.stale_since = None
        return behind

    def write(self, draft: Draft) -> bool:
        """Make a draft durable, as `Documents` does."""
        return self._rows.replace(draft.namespace, self._encode(draft), draft.changes)

    def commit(self, draft: Draft) -> None:
        """Take over a draft that is durable, and ring for it."""
        super().commit(draft)
        self.revision = max(self.revision, draft.revision)
        self._doorbell.ring(OF_DOCUMENTS)

    def watch(self, is_watched: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Call `changed` when other daemons may have changed something."""
        self._watches.watch_documents(is_watched, changed)

    def watched(self) -> None:
        """Take note that `is_watched` has become true."""
        self._watches.wake()


def new_token() -> bytes:
    """Return a token that no other write has."""
    return os.urandom(_TOKEN_BYTES)


def _changes(before: Document, now: Document) -> list[Change]:
    """Return what other daemons have changed between two states of a document."""
    found = [
        Change(key, record.revision, "set")
        for key, record in now.records.items()
        if (old := before.get(key)) is None or old.revision != record.revision
    ]
    gone = before.records.keys() - now.records.keys()
    return found + [Change(key, now.revision, "deleted") for key in sorted(gone)]
