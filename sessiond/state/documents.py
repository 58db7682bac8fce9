"""Documents: all namespaces of a profile, read at a start. Reads are answered from memory.

Law: memory is never ahead of the disk. `write` makes a draft durable in a worker thread; `commit`
takes it over behind that, where the reads are answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from sessiond.errors import StorageError
from sessiond.limits import STATE_BYTES_MAX, STATE_NAMESPACE_BYTES_MAX
from sessiond.model.times import unix_ms
from sessiond.state.codec import encode
from sessiond.state.document import Change, Document, Draft, Moment
from sessiond.state.folder import Aside


class DocumentPlace(Protocol):
    """Place of stored documents. Every method blocks, and raises StorageError."""

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a document."""
        ...

    def aside(self) -> list[Aside]:
        """Return the files that were put aside."""
        ...

    def settle(self) -> None:
        """Make durable what an earlier daemon may have left behind without its last sync."""
        ...

    def load(self, namespace: str) -> Document | None:
        """Return the document of a namespace; None without one."""
        ...

    def replace(self, namespace: str, data: bytes) -> bool:
        """Store a document durably; return False if another daemon has stored another one before."""
        ...


class Documents:
    """Documents of one profile."""

    def __init__(
        self,
        place: DocumentPlace,
        first_revision: int,
        report: Callable[[str], None],
        encode: Callable[[Document], bytes] = encode,
    ) -> None:
        """Read every document. A failure is reported, and keeps what could not be read from being used.

        `first_revision` comes from the clock: if files are lost, it still exceeds their revisions.
        """
        self.by_namespace: dict[str, Document] = {}
        self.revision = first_revision
        """Highest revision that a change has, or had before it was refused by the disk."""
        self.committed_revision = first_revision
        """Revision of the latest change that is durable."""
        self.loaded: Counter[str] = Counter()
        """Number of reads of each namespace from its place."""
        self._failed: set[str] = set()
        self._is_listed = False
        self._place = place
        self._encode = encode
        try:
            self._list(report)
        except StorageError as error:
            report(f"{error}; the state store cannot be used until that is mended")

    @property
    def size(self) -> int:
        """Bytes of all documents, as their own sizes count."""
        return sum(document.size for document in self.by_namespace.values())

    def next_revision(self) -> int:
        """Return a revision that no change has."""
        self.revision += 1
        return self.revision

    def newest_revision(self) -> int:
        """Return a revision such that each change asked for from now on, at any daemon, has a later one.

        Blocking. Raises StorageError.
        """
        return self.revision

    def moment(self, now: str, namespace: str | None = None) -> Moment:  # noqa: ARG002
        """Return the moment of a draft that is made at this time (RFC 3339, UTC)."""
        return Moment(now, self.ms_at(now), self.next_revision)

    def ms_at(self, now: str) -> int:
        """Return the milliseconds since 1970 by which values expire, when the daemon's clock shows `now`."""
        return unix_ms(now) or 0

    # -- a place that daemons share ------------------------------------------------------

    stale_since: str | None = None
    """Time from which on a shared place has not answered."""
    is_shared = False
    """True if other daemons write to the place, too: then every call begins with a look."""

    def look(self, namespace: str, now: str, *, changes: bool) -> Sequence[Change]:  # noqa: ARG002
        """Take over what other daemons have written to a namespace; return the changes. Blocking.

        `changes` says that a draft of the namespace follows. Raises StorageError.
        """
        return ()

    def behind(self, now: str) -> list[str]:  # noqa: ARG002
        """Return the namespaces that other daemons have changed. Blocking. Raises StorageError."""
        return []

    def watch(self, is_watched: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Call `changed`, on the event loop, when other daemons may have changed something.

        Notices come for as long as `is_watched` is true.
        """

    def watched(self) -> None:
        """Take note that `is_watched` has become true."""

    def bytes_max(self, document: Document) -> int:
        """Return how many bytes a document may have now."""
        return min(STATE_NAMESPACE_BYTES_MAX, STATE_BYTES_MAX - self.size + document.size)

    def next_expiry(self, namespace: str) -> int | None:
        """Return when the first value of a namespace expires; None if none does."""
        document = self.by_namespace.get(namespace)
        return None if document is None else document.next_expiry

    def is_ready(self, namespace: str | None = None) -> bool:
        """Return whether a namespace, or all of them, can be read from memory."""
        return self._is_listed and (
            not self._failed if namespace is None else namespace not in self._failed
        )

    def recover(self, namespace: str | None, report: Callable[[str], None]) -> None:
        """Read again what could not be read. Blocking. Raises StorageError."""
        if not self._is_listed:
            self._list(report)
        if namespace in self._failed:
            self._load(namespace)

    def failures(self) -> list[str]:
        """Return the namespaces whose files cannot be read."""
        return sorted(self._failed)

    def aside(self) -> list[Aside]:
        """Return the files that were put aside. Blocking. Raises StorageError."""
        return self._place.aside()

    def write(self, draft: Draft) -> bool:
        """Make a draft durable. Blocking. Raises StorageError.

        Returns False if another daemon has written the namespace since the draft was made.
        """
        return self._place.replace(draft.namespace, self._encode(draft))

    def commit(self, draft: Draft) -> None:
        """Take over a draft that is durable."""
        document = self.by_namespace.get(draft.namespace)
        if document is None:
            document = self.by_namespace[draft.namespace] = Document(draft.namespace)
        document.commit(draft)
        self.committed_revision = max(self.committed_revision, draft.revision)

    def _list(self, report: Callable[[str], None]) -> None:
        namespaces = self._place.namespaces()
        if namespaces:
            self._place.settle()
        for namespace in namespaces:
            try:
                self._load(namespace)
            except StorageError as error:
                self._failed.add(namespace)
                report(f"{error}; the namespace {namespace} cannot be used until that is mended")
        self._is_listed = True

    def _load(self, namespace: str) -> None:
        document = self._place.load(namespace)
        self._failed.discard(namespace)
        self.loaded[namespace] += 1
        if document is not None:
            self.by_namespace[namespace] = document
            self.revision = max(self.revision, document.revision)
            self.committed_revision = max(self.committed_revision, document.revision)
