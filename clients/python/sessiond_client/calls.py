"""One call: what is asked, whether the request may be sent twice, and the outcome. Pure.

Law: an append has its ids, and a merge its key, before it is first sent, so that a retry is about
the very entries of the first try. A request that is not known to be safe is never repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from sessiond_client.connect_options import OnProgress
from sessiond_client.errors import SessiondClientError
from sessiond_client.generated.facts import ALIASES, CHECKS, KEYED, READS, SAFE

__all__ = ["Call", "CallState", "Resend"]


class Resend(Enum):
    """The meaning of a lost connection or a refused write for a request."""

    NEVER = auto()  # doing it twice would be two things
    READ = auto()  # changes nothing that a second time would change again
    KEYED = auto()  # the daemon recognises it by its ids and does it once


class CallState(Enum):
    """The progress of a call."""

    QUEUED = auto()  # no byte has left
    SENT = auto()
    DELAYED = auto()  # refused for now, `due` says when to send again
    SETTLED = auto()


_SUBSCRIBING: Final = frozenset(
    {
        *("session/subscribe", "session/unsubscribe", "session/flush"),
        *("catalog/subscribe", "catalog/unsubscribe"),
        *("state/subscribe", "state/unsubscribe"),
    }
)


class Call:
    """One request and its outcome."""

    def __init__(  # noqa: PLR0913 - what a caller may say of a call
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        deadline: float,
        new_id: Callable[[], str],
        on_progress: OnProgress | None = None,
        patience: float = 0.0,
    ) -> None:
        """Give an append ids and a merge a key, if it has none. Raises ValueError for a subscription."""
        name = ALIASES.get(method, method)
        if name in _SUBSCRIBING and params.get("durability") is None:
            # It belongs to one connection, and its events to one that is read as they are wanted.
            raise ValueError(
                f"{name}: use client.subscribe(), subscribe_catalog() or subscribe_state()"
            )
        self.method = method
        self._new_id = new_id
        self.params = _prepared(name, params, new_id)
        self.resend = _resend_of(name, self.params)
        is_change = name in SAFE or name == "session/create"
        self.is_read = self.resend is Resend.READ and not is_change
        """True if the daemon changes nothing for this call, also on a connection that is lost."""
        self.check = None if self.is_read else CHECKS.get(name)
        """Method that shows whether the call was done."""
        self.deadline = deadline
        self.on_progress = on_progress
        self.patience = patience
        """Seconds that a report of progress gives the call at least."""
        self.result: Raw | None = None
        self.error: SessiondClientError | None = None
        self.wake: Callable[[], None] | None = None
        """Set by the caller that waits while another call reads for both."""
        self.id = 0
        self.frame = b""
        self.state = CallState.QUEUED
        self.due = math.inf
        self.losses = 0
        self.refusals = 0
        self.is_outcome_unknown = False

    @property
    def may_be_done(self) -> bool:
        """True if the daemon may have changed something for the call, or may yet do so."""
        return self.is_outcome_unknown or (self.state is CallState.SENT and not self.is_read)

    @property
    def is_settled(self) -> bool:
        """True once the call has its answer or its error."""
        return self.state is CallState.SETTLED

    def like(self, params: Mapping[str, Any]) -> Call:
        """Return a call of the same method with other params, and the same time left."""
        return Call(
            self.method,
            params,
            deadline=self.deadline,
            new_id=self._new_id,
            on_progress=self.on_progress,
            patience=self.patience,
        )

    def sent(self) -> None:
        """Note that the kernel took the first byte of the request."""
        if self.state is CallState.QUEUED:
            self.state = CallState.SENT

    def outcome(self) -> Raw:
        """Return the result of a settled call, or its error raised."""
        if self.error is not None:
            raise self.error
        assert self.result is not None, "not settled, or abandoned"
        return self.result

    def settle(self, outcome: Raw | SessiondClientError | None) -> None:
        """End the call and wake its waiter."""
        assert self.state is not CallState.SETTLED
        self.state = CallState.SETTLED
        if isinstance(outcome, SessiondClientError):
            self.error = outcome
        else:
            self.result = outcome
        if self.wake is not None:
            self.wake()


def _resend_of(name: str, params: Mapping[str, Any]) -> Resend:
    match name:
        case "session/create" if params.get("if_exists") != "open" or "session_id" not in params:
            return Resend.NEVER
        case "session/create":
            # Sent again, it finds the session that the first call made.
            return Resend.READ
        case _ if name in READS or name in SAFE:
            return Resend.READ
        case "session/append":
            return Resend.KEYED
        case "session/prune" | "session/merge" if params.get("dry_run", False):
            return Resend.READ
        case _ if name in KEYED and params.get("idempotency_key") is not None:
            return Resend.KEYED
        case "session/repair" | "retention/run" if params.get("dry_run", True):
            return Resend.READ
        case "session/continue_recent" if params.get("cwd") is None:
            return Resend.READ
        case "session/export" if params.get("path") is None:
            return Resend.READ
        case _:
            return Resend.NEVER


def _prepared(name: str, params: Mapping[str, Any], new_id: Callable[[], str]) -> Mapping[str, Any]:
    """Return the params with what makes the call safe to send again, where the client adds that."""
    match name:
        case "session/append":
            return _with_ids(params, new_id)
        case "session/merge" if _takes_key(params):
            return {**params, "idempotency_key": new_id()}
        case _:
            return params


def _takes_key(merge: Mapping[str, Any]) -> bool:
    """Return whether a merge stores a turn here, and has no key yet."""
    is_here = merge.get("into", "this") == "this" and not merge.get("dry_run", False)
    return is_here and merge.get("idempotency_key") is None


def _with_ids(params: Mapping[str, Any], new_id: Callable[[], str]) -> Mapping[str, Any]:
    """Return the params of an append, each entry under an id of its own."""
    if params.get("idempotency_key") is not None:
        return params
    filled = dict(params)
    if "message" in filled and "entry" not in filled and "entries" not in filled:
        filled["entry"] = {"type": "message", "message": filled.pop("message")}
    if "entry" in filled:
        filled["entry"] = _with_id(filled["entry"], new_id)
    if isinstance(filled.get("entries"), list | tuple):
        entries = cast("list[object]", filled["entries"])
        filled["entries"] = [_with_id(entry, new_id) for entry in entries]
    return filled


def _with_id(entry: object, new_id: Callable[[], str]) -> object:
    if isinstance(entry, Raw):
        # One level only: the payloads keep their bytes.
        entry = msgspec.json.decode(entry, type=dict[str, Raw])  # noqa: TID251 - it has no Struct
    # What is no object goes on as it is; the daemon says what is wrong with it.
    if not isinstance(entry, Mapping):
        return entry
    fields = cast("Mapping[str, object]", entry)
    if fields.get("id") is not None:
        return fields
    head = {"type": fields["type"]} if "type" in fields else {}
    return {**head, "id": new_id(), **{key: fields[key] for key in fields if key != "id"}}
