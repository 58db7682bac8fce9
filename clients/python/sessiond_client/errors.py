"""Errors that a caller meets, and what each says about the outcome.

`RpcError` is the daemon's own answer. All further errors come from this side: they say
whether the daemon may have acted (`outcome_unknown`), and never guess.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ClientClosed",
    "ConnectionLost",
    "LeaseLost",
    "ProtocolViolation",
    "RpcError",
    "SessiondClientError",
    "Timeout",
    "Unanswered",
]


class SessiondClientError(Exception):
    """The base of everything this package raises on purpose."""


class RpcError(SessiondClientError):
    """The daemon refused. `kind` names the reason, `data` carries what is needed to decide."""

    def __init__(self, code: int, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.kind: str = str(data.get("kind", ""))
        self.retryable: bool = data.get("retryable") is True

    def __str__(self) -> str:
        return f"{self.kind or 'error'} ({self.code}): {self.message}"


class Unanswered(SessiondClientError):
    """A call has no answer. With `outcome_unknown` the daemon may have done what was asked; `check` is the method that shows it.

    The text of the error is `what`, and the check if there is one.
    """

    def __init__(self, message: str, *, outcome_unknown: bool, check: str | None = None) -> None:
        doubt = f"; {check} shows whether it was done" if outcome_unknown and check else ""
        super().__init__(message + doubt)
        self.what = message
        self.outcome_unknown = outcome_unknown
        self.check = check


class ConnectionLost(Unanswered):
    """There is no connection. With `outcome_unknown` the daemon may have done what was asked."""


class Timeout(Unanswered):
    """No answer in time. With `outcome_unknown` the daemon may have done, or may yet do it."""


class ProtocolViolation(SessiondClientError):
    """Bytes that are not this protocol: another program's socket, or another version."""


class ClientClosed(Unanswered):
    """The client was closed before the call was answered. With `outcome_unknown` the daemon may have done what was asked."""

    def __init__(
        self, message: str, *, outcome_unknown: bool = False, check: str | None = None
    ) -> None:
        super().__init__(message, outcome_unknown=outcome_unknown, check=check)


class LeaseLost(SessiondClientError):
    """A lease is over: not renewed in time, ended by its holder, or gone with its connection.

    Entries that were stored under the lease stay. From now on another client may hold the head.
    """
