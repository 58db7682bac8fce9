"""The port of a database of sessions: rows and lines, of which the database understands nothing.

Law 1: a row and the lines that it counts change in one transaction, and an append takes effect only at
the position that its writer saw. So of any number of writers, of any number of daemons, one wins each
position, and all readers get the lines in one order. Law 2: every other change of a row counts its
version up, and an append takes effect only under the version that its writer saw. So no append lands
behind an archive, a deletion or a lease that its writer did not know.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple, Protocol

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.service.database.company_rows import CompanyRows, Sender

Place = Literal["draft", "placed", "archived"]
"""Place of a session; a draft comes to its place with its first answer."""

NO_LINES: Final = b""
"""Digest of no lines at all."""
NO_TOKEN: Final = b""
"""Token of a document that does not exist."""
OF_DOCUMENTS: Final = 0
"""Number that rings for documents; the numbers of sessions begin with 1."""


class Head(Struct, frozen=True):
    """The row of a session: its identity, its position, its version and place.

    `number` names the session for good: a later session of an equal id has another number. `digest`
    is chained over all lines up to `seq`, so that equal positions mean equal lines.
    """

    number: int
    session_id: str
    """No id of a session if a person has changed the id in the row."""
    epoch: str
    seq: int
    digest: bytes
    size: int
    """Bytes of all lines, newlines included."""
    place: Place
    is_deleted: bool
    written_ns: int
    """Time of the last append, in nanoseconds since 1970, by the database's clock."""
    version: int
    """Number of changes that were no appends."""
    leases: bytes
    """The leases on its heads; empty without any."""
    now_ns: int
    """Time by the database's clock when the row was read."""
    senders: tuple[Sender, ...] | None = None
    """Senders of signals, in one snapshot with the position; only `find`, `heads` and `hold` read them."""


class Trashed(Struct, frozen=True):
    """A deleted session, and its header line."""

    head: Head
    header: bytes


class Totals(NamedTuple):
    """The number of all rows, deleted or not, and the sums of their versions and seqs."""

    rows: int
    versions: int
    seqs: int


class ChangedHeads(Struct, frozen=True):
    """Rows that have changed, each as it is now, and the number to ask with the next time."""

    heads: list[Head]
    upto: int
    """Smaller than that of an earlier answer only if the database is another one, or was brought back."""
    totals: Totals
    """Totals of all rows, in one snapshot with `heads`."""


class StoredDocument(Struct, frozen=True):
    """A document of the state store. Each write gives the document another token."""

    token: bytes
    data: bytes
    """Empty for a document that was never written."""


class Unsent(StorageError):
    """The refusal of a call that changes nothing, now or later.

    The call did not reach the database, or is one that the database does not carry out as it is set up.
    """


class SentAppend(Protocol):
    """An append on its way to the database."""

    def stored(self) -> Head | None:
        """Wait for the outcome, and return or raise what the `append` of the database does."""
        ...


class HeldRow(Protocol):
    """The row of a session, which no other writer changes until the append or the release.

    A database may end the hold of a writer that does nothing, and then refuses its append.
    """

    @property
    def head(self) -> Head:
        """The row as it is held, with the senders of the session."""
        ...

    @property
    def lines(self) -> Sequence[bytes]:
        """The first lines behind the position that `hold` was told."""
        ...

    def send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> SentAppend:
        """Begin an append as the `append` of the database, which releases the row. Waits for nothing."""
        ...

    def release(self) -> None:
        """Let other writers have the row. Safe to repeat; raises nothing."""
        ...


class SessionDatabase(Protocol):
    """Rows and lines of sessions. Every method is one transaction, and raises StorageError."""

    @property
    def name(self) -> str:
        """Name of the database for people, without secrets."""
        ...

    @property
    def company(self) -> CompanyRows:
        """The tables of signals and presence."""
        ...

    @property
    def unreachable_since(self) -> float | None:
        """Seconds since 1970 at which the database ceased to answer; None while the database answers."""
        ...

    @property
    def notifications(self) -> bool:
        """False if the rings of other daemons were found not to come through, so that `wait` hears none."""
        ...

    def create(
        self,
        session_id: str,
        epoch: str,
        chunks: Iterable[Sequence[bytes]],
        place: Place,
        leases: bytes = b"",
    ) -> Head | None:
        """Store a session, all lines or none; None if a session that is not deleted has the id.

        After an error the session may be stored nevertheless, now or later. Raises what `chunks` raises.
        """
        ...

    def find(self, session_id: str) -> Head | None:
        """Return the row of the session of this id that is not deleted; None without one."""
        ...

    def ids(self, limit: int) -> list[str]:
        """Return the ids of sessions that are no drafts, those made last first; archived ones last."""
        ...

    def heads(self, numbers: Sequence[int]) -> list[Head]:
        """Return the rows of sessions, deleted or not, in any order; unknown numbers are left out."""
        ...

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind the position of `at`; `digest` is that of all lines then.

        The session comes to the place of `at`, in the step that stores the lines.
        Returns None, and stores nothing, if the session is elsewhere by now: at another position, under
        another version, or deleted. With `sync` the lines are durable behind the call. After an error
        the lines may be stored nevertheless, now or later: `fence` settles that.
        """
        ...

    def send(
        self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool
    ) -> SentAppend | None:
        """Begin an `append`, whose outcome the caller waits for next. Waits for nothing, and raises nothing.

        Returns None, and sends nothing, where that is not possible now.
        """
        ...

    def hold(self, at: Head) -> HeldRow | None:
        """Wait in turn for the row of a session, and hold the row; None if that is not possible now.

        Other writers of the row wait, also those of this daemon.
        """
        ...

    def fence(self, number: int) -> Head | None:
        """Count the version of a session up, and return the row; None for a number that no session has.

        An append of before is in this row, or is never stored.
        """
        ...

    def lease(self, at: Head, leases: bytes) -> Head | None:
        """Replace the leases of a session; None if the session has another version, or is deleted."""
        ...

    def sync(self) -> None:
        """Make all lines durable that were stored without `sync`."""
        ...

    def pieces(
        self, number: int, first: int, last: int, *, ahead: bool = False
    ) -> Generator[bytes]:
        """Yield the lines `first` to `last` of a session, both included, as a file has them.

        A piece is some whole lines, each with a newline behind it. With `ahead` the next pieces come
        while the caller works on one: for a caller that takes all of them or closes the generator, and
        asks the database for nothing in between.
        """
        ...

    def move(self, at: Head, place: Place) -> Head | None:
        """Bring a session to a place; None if the session is deleted, or has another epoch or version.

        A session that leaves the archive counts as written just now.
        """
        ...

    def delete(
        self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
    ) -> Head | None:
        """Delete a session, which stays until `purge`, without its leases; give it an epoch, if there is one.

        Returns None if the session is deleted, or has another version; with `unless_appended` also None, as
        for `append`, if the session is elsewhere by now.
        """
        ...

    def open_elsewhere(self, daemon: str) -> list[str]:
        """Return the ids of the sessions that other daemons have noted as open.

        A note counts for OPEN_NOTE_COUNTS_SECONDS. A session that is deleted is left out.
        """
        ...

    def delete_unused(self, number: int | None, before_ns: int, daemon: str) -> list[int]:
        """Delete a session, or with None all drafts, if unused since a time; return what was deleted.

        A session is unused if it is not archived, was last written before that time, in nanoseconds since 1970,
        and no other daemon has noted within OPEN_NOTE_COUNTS_SECONDS that it has the session open.
        """
        ...

    def restore(self, at: Head) -> Head | None:
        """Bring a deleted session back to its place.

        Returns None if the session is not deleted, is purged or has another version, or if another session
        has its id now.
        """
        ...

    def renew(self, at: Head, epoch: str, digest: bytes) -> Head | None:
        """Give a session another epoch at an unchanged position, and end its leases; None as for `append`."""
        ...

    def replace(self, at: Head, epoch: str, chunks: Iterable[Sequence[bytes]]) -> Head | None:
        """Put a new session in the place of one at this position, which is deleted; None as for `append`."""
        ...

    def purge(self, session_id: str) -> int:
        """Remove the deleted sessions of an id for good; return how many there were."""
        ...

    def trashed(self, limit: int, before: int | None) -> list[Trashed]:
        """Return deleted sessions, those made last first, with numbers below `before`."""
        ...

    def newest_trashed(self, session_id: str) -> Head | None:
        """Return the session of an id that was deleted and made last; None without one."""
        ...

    def changes(self, after: int) -> ChangedHeads:
        """Return the rows with changes behind a number; all rows, purged ones too, behind 0.

        A row may come again without a change; none is left out.
        """
        ...

    def holding(self, text: bytes) -> Iterator[str]:
        """Yield the ids of the sessions that are not deleted and have a line with these bytes.

        Those made last come first.
        """
        ...

    def document_tokens(self, kind: str) -> dict[str, bytes]:
        """Return the tokens of all documents of a kind, by namespace."""
        ...

    def document(self, kind: str, namespace: str, unless: bytes) -> StoredDocument | None:
        """Return a document; None if the document has the token `unless`.

        A document that does not exist has NO_TOKEN.
        """
        ...

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        """Replace a document that has the token `at`, durably; return whether the document had it.

        After an error the document may be replaced nevertheless, now or later: `fence_document`
        settles that.
        """
        ...

    def fence_document(self, kind: str, namespace: str, token: bytes) -> bytes:
        """Give a document another token, and return its data; empty for one that does not exist.

        A write of before is in this data, or never takes effect.
        """
        ...

    def reserve(self, name: str, least: int, count: int) -> int:
        """Reserve `count` numbers under a name, from `least` on or behind; return the first."""
        ...

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        """Let a holder have a piece of work for so long from now; False while another holder has the work."""
        ...

    def end_claim(self, work: str, holder: str) -> None:
        """End the claim of a holder, who may have none."""
        ...

    def ring(self, numbers: Collection[int]) -> None:
        """Tell other daemons that these sessions have changed. They may not hear it."""
        ...

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Wait until another daemon rings; return the sessions, or None after so many seconds.

        One thread at a time waits. None also says that the rings of a while were not heard.
        """
        ...

    def stop_listening(self) -> None:
        """Hear no rings until the next `wait`, so that the database keeps none for this daemon.

        No thread waits meanwhile.
        """
        ...

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Count the beats of a daemon up, and note which sessions the daemon has open."""
        ...

    def beats(self) -> dict[str, int]:
        """Return the number of beats of each daemon."""
        ...

    def forget_daemons(self, daemons: Sequence[str]) -> None:
        """Remove the beats of daemons that have ended."""
        ...

    def now_ns(self) -> int:
        """Return the time by the database's clock, in nanoseconds since 1970."""
        ...

    def close(self) -> None:
        """Release all connections."""
        ...


def size_of(lines: Sequence[bytes]) -> int:
    """Return the bytes of lines, newlines included."""
    return sum(map(len, lines)) + len(lines)


def chained(digest: bytes, lines: Iterable[bytes]) -> bytes:
    """Return the digest of the lines behind those that have `digest`."""
    for line in lines:
        digest = sha256(digest + line).digest()
    return digest
