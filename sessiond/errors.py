"""The errors that a client can get, one class per error.

An error tells the client what to do next: `kind` names the error, `retryable` says
whether an unchanged call may succeed later, and `data()` has what the client needs to
decide. Codes are part of the wire and are never reused. A test checks protocol.md
against the table `ERRORS`. The class docstrings are the meanings in the schema.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, cast


class SessiondError(Exception):
    """The base class of all errors; never raised itself."""

    code: ClassVar[int]
    kind: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self._data = data

    def data(self) -> dict[str, Any]:
        """Return the `data` member of the JSON-RPC error: kind, retryable, and its own fields."""
        return {"kind": self.kind, "retryable": self.retryable, **self._data}

    def inside(self, path: str) -> Self:
        """Return the error with `path` put before its own path, which is relative to it."""
        inner = self._data["path"]
        return self.replacing(path=f"{path}.{inner}" if path else inner)

    def replacing(self, **data: Any) -> Self:
        """Return the error with some fields replaced."""
        return type(self)(self.message, **{**self._data, **data})


class ParseFailed(SessiondError):
    """The frame is no JSON, or not UTF-8. Nothing was done; send the next frame."""

    code = -32700
    kind = "parse_error"


class InvalidRequest(SessiondError):
    """The frame is JSON, but no JSON-RPC 2.0 request."""

    code = -32600
    kind = "invalid_request"


class MethodNotFound(SessiondError):
    """The method does not exist in this version."""

    code = -32601
    kind = "method_not_found"


class InvalidParams(SessiondError):
    """A parameter is missing, unknown or of the wrong type; `path` names it."""

    code = -32602
    kind = "invalid_params"


class Internal(SessiondError):
    """A bug in sessiond. The log has the traceback under `incident_id`."""

    code = -32603
    kind = "internal"


class Overloaded(SessiondError):
    """A bounded queue or table is full. Nothing was written; retry after `retry_after_ms`."""

    code = -32001
    kind = "overloaded"
    retryable = True


class Cancelled(SessiondError):
    """The request was cancelled by its sender before it took effect."""

    code = -32800
    kind = "cancelled"


class VersionUnsupported(SessiondError):
    """The daemon has no protocol version of the client; `supported_versions` lists its own."""

    code = -32010
    kind = "version_unsupported"


class PermissionDenied(SessiondError):
    """The connection's access does not allow the method; `need` names the access that does."""

    code = -32013
    kind = "permission_denied"


class TooLarge(SessiondError):
    """A frame, batch or result is over `limit`."""

    code = -32014
    kind = "too_large"


class SessionNotFound(SessiondError):
    """The session does not exist; `available` names up to 20 sessions that do."""

    code = -32020
    kind = "session_not_found"


class SessionExists(SessiondError):
    """The id is taken. Open it, or create with `if_exists: "open"`."""

    code = -32021
    kind = "session_exists"


class SessionLocked(SessiondError):
    """Another process holds the session's file; `holder` says who and since when."""

    code = -32022
    kind = "session_locked"
    retryable = True


class Draining(SessiondError):
    """The daemon is stopping. Reconnect after `retry_after_ms`."""

    code = -32023
    kind = "draining"
    retryable = True


class SessionArchived(SessiondError):
    """The session is archived: it can be read, not changed. Call `session/unarchive` first."""

    code = -32024
    kind = "session_archived"


class SessionCorrupt(SessiondError):
    """The session's file has a line that does not parse; `line` names it (the first line is 1)."""

    code = -32025
    kind = "session_corrupt"


class SessionReadOnly(SessiondError):
    """The session's file is read where it is and never written to; `use` names ways to go on."""

    code = -32027
    kind = "session_read_only"


class AmbiguousRef(SessiondError):
    """Several sessions match; `matches` names up to 20 of them. Use an id."""

    code = -32026
    kind = "ambiguous_ref"


class EntryNotFound(SessiondError):
    """The session has no entry of this id."""

    code = -32030
    kind = "entry_not_found"


class EntryInvalid(SessiondError):
    """The entry breaks a rule of its type or of this session's dialect; `path` names the field."""

    code = -32033
    kind = "entry_invalid"


class PreconditionFailed(SessiondError):
    """The head is not where `expected` says: decide again with `actual` and `missed`."""

    code = -32031
    kind = "precondition_failed"


class IdempotencyConflict(SessiondError):
    """The id or key is stored already with other content."""

    code = -32032
    kind = "idempotency_conflict"


class HeadNotFound(SessiondError):
    """The session has no head of this name. Give `parent_id` to create the head, or branch."""

    code = -32034
    kind = "head_not_found"


class RevisionMismatch(SessiondError):
    """The key is not at `expected_revision`: decide again by `actual_revision` (0: no such key)."""

    code = -32035
    kind = "revision_mismatch"


class LeaseHeld(SessiondError):
    """The head is leased; `holder`, `epoch` and `expires_at` name the holder and the end."""

    code = -32036
    kind = "lease_held"
    retryable = True


class LeaseLost(SessiondError):
    """The lease has ended. Acquire a new lease and look at the head before you go on."""

    code = -32037
    kind = "lease_lost"


class SubscriptionNotFound(SessiondError):
    """The connection has no subscription on the session."""

    code = -32040
    kind = "subscription_not_found"


class PlanStale(SessiondError):
    """The head has moved, and the plan's summary does not fit there. Plan again."""

    code = -32050
    kind = "plan_stale"


class SummarizerUnavailable(SessiondError):
    """No summarizer wrote the summary; `tried` lists them. Write one from `plan` and send it."""

    code = -32051
    kind = "summarizer_unavailable"


class Vetoed(SessiondError):
    """A client vetoed the operation in a hook; `by` and `reason` name the client and its reason."""

    code = -32052
    kind = "vetoed"


class NothingToCompact(SessiondError):
    """The head has nothing to summarise; `reason` says why. Go on without a compaction."""

    code = -32053
    kind = "nothing_to_compact"


class StorageError(SessiondError):
    """The disk refused the operation; `errno` names the cause. Retry with unchanged ids or key."""

    code = -32060
    kind = "storage_error"
    retryable = True
    # The errors that a retry meets again until the user names another path, or changes the
    # permissions or the file system.
    for_good: ClassVar[frozenset[str]] = frozenset(
        {
            *("EACCES", "EPERM", "EROFS", "ENOTSUP", "ENOSYS"),
            *("EEXIST", "EFBIG", "EINVAL", "EISDIR", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR"),
        }
    )


class SecretKeyUnavailable(SessiondError):
    """The key of the secrets is missing, wrong, or open to other users; the message says what to do."""

    code = -32061
    kind = "secret_key_unavailable"


class SecretCorrupt(SessiondError):
    """A stored secret is not what was stored: it was changed, swapped or rolled back."""

    code = -32062
    kind = "secret_corrupt"


def exhausted(error: BaseException, retry_after_ms: int) -> SessiondError | None:
    """Return the error for work that the system ended: no memory, no thread, a failed call.

    Returns None for any other error. An exception group counts if every error in the group does.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        short = [exhausted(one, retry_after_ms) for one in group.exceptions]
        return None if None in short else short[0]
    # A timeout is an OSError without a number.
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, "EIO")
        text = f"the system refused a call: {error.strerror or name}"
        return StorageError(text, errno=name, retryable=name not in StorageError.for_good)
    if isinstance(error, MemoryError):
        return Overloaded("there is not enough memory for this", retry_after_ms=retry_after_ms)
    # `threading` raises a plain RuntimeError with this text.
    if isinstance(error, RuntimeError) and error.args[:1] == ("can't start new thread",):
        return Overloaded("the system cannot start another thread", retry_after_ms=retry_after_ms)
    return None


@contextmanager
def as_outage() -> Generator[None]:
    """Raise a lack of memory or of threads as StorageError: who waits for a store tries again later."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        short = exhausted(error, 0)
        if short is None:
            raise
        raise StorageError(short.message, errno="ENOMEM") from error


ERRORS: tuple[type[SessiondError], ...] = (
    ParseFailed,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    Overloaded,
    Cancelled,
    VersionUnsupported,
    PermissionDenied,
    TooLarge,
    SessionNotFound,
    SessionExists,
    SessionLocked,
    Draining,
    SessionArchived,
    SessionCorrupt,
    AmbiguousRef,
    SessionReadOnly,
    EntryNotFound,
    EntryInvalid,
    PreconditionFailed,
    IdempotencyConflict,
    HeadNotFound,
    RevisionMismatch,
    LeaseHeld,
    LeaseLost,
    SubscriptionNotFound,
    PlanStale,
    SummarizerUnavailable,
    Vetoed,
    NothingToCompact,
    StorageError,
    SecretKeyUnavailable,
    SecretCorrupt,
)
