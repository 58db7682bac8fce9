"""The calls of one client: what became of each, over any number of connections.

Law: a call ends once, with an answer or one error. It is sent a second time only
if that cannot do a thing twice: nothing of it had left, the daemon said that it
did nothing, or the call reads, or carries ids that the daemon knows again.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.calls import Call, CallState, Resend
from sessiond_client.connection_state import ConnectionState
from sessiond_client.conversation import Conversation, Setup, backoff, retry_after
from sessiond_client.errors import (
    ClientClosed,
    ConnectionLost,
    RpcError,
    SessiondClientError,
    Timeout,
    Unanswered,
)
from sessiond_client.generated.facts import REQUEST_BYTES_MAX, TOO_LARGE
from sessiond_client.generated.messages import ProgressTold
from sessiond_client.limits import RESENDS_MAX, SILENCE_SECONDS, STORAGE_RETRIES_MAX

__all__ = ["Exchange"]

E = TypeVar("E", bound=Unanswered)

# Answers that say: not done, ask again.
_NOT_DONE = frozenset({"overloaded", "draining"})


class Exchange(Conversation):
    """Every call that has no outcome yet, in the order in which they were made."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.calls: dict[int, Call] = {}
        """The calls that wait for an answer, oldest first."""
        self._endless: dict[int, Call] = {}
        """The calls without a time limit."""
        self._timers: list[tuple[float, int]] = []
        self._silent_since = math.inf
        """The time at which calls without a limit began to wait for a word of the daemon; infinity = none waits."""
        self._is_pinged = False
        self._last_id = 0
        self._is_trusted = True
        """False while on a connection that was made again nothing was said yet."""
        self._is_doubted = False
        """True if the last connection ended without a message that says why."""
        self._is_asked = False
        """True if a request was sent on the connection that must be answered first."""
        self.standing = ConnectionState()

    def submit(self, call: Call) -> None:
        """Take a call into the exchange; it may be settled at once."""
        self._last_id += 1
        call.id = self._last_id
        params = call.params
        if call.on_progress is not None:
            params = {**params, "_meta": {"progress_token": call.id}}
        call.frame = wire.request(call.id, call.method, params)
        if self.is_closed:
            call.settle(ClientClosed("the client is closed"))
        elif len(call.frame) > REQUEST_BYTES_MAX:
            data = {"kind": "too_large", "retryable": False, "limit": REQUEST_BYTES_MAX}
            call.settle(RpcError(TOO_LARGE, f"a request of {len(call.frame)} bytes", data))
        else:
            self.calls[call.id] = call
            if call.deadline == math.inf:
                self._endless[call.id] = call
            self._set_timer(call.deadline, call)
            self._offer(call)

    def abandon(self, call: Call) -> None:
        """Give up a call: its caller no longer waits, and the call need not take effect."""
        if not call.is_settled:
            self._drop(call)
            call.settle(None)

    def received(self, data: bytes, now: float) -> None:
        """Take bytes that came: the daemon lives."""
        self._silent_since = math.inf
        super().received(data, now)

    def tick(self, now: float) -> None:
        self._look_for_life(now)
        for call in self._due_calls(now):
            if now >= call.deadline:
                self._expire(call)
            elif call.state is CallState.DELAYED and now >= call.due:
                call.state = CallState.QUEUED
                self._offer(call)

    def wake_at(self) -> float:
        while self._timers and self._timers[0][1] not in self.calls:
            heapq.heappop(self._timers)
        due = self._timers[0][0] if self._timers else math.inf
        share = 1.0 if self._is_pinged or not self.is_connected else 0.5
        return min(due, self._silent_since + share * SILENCE_SECONDS)

    def close(self) -> None:
        super().close()
        for call in list(self.calls.values()):
            text = "the client was closed before the answer"
            self._settle(call, self._unanswered(ClientClosed, text, call))

    def leave_to_parent(self) -> None:
        # The threads that wait are the parent's; a call on whose way this process was forked ends here.
        text = "this process was forked while the call was on its way, which the parent makes"
        for call in list(self.calls.values()):
            call.wake = None
            self._settle(call, ConnectionLost(text, outcome_unknown=True))
        self.standing.leave_to_parent()
        super().leave_to_parent()

    def _look_for_life(self, now: float) -> None:
        """Ask a daemon that is silent whether it lives; give up calls without a time limit if it does not say so."""
        if not self._endless:
            self._silent_since = math.inf
        elif self._silent_since == math.inf:
            self._silent_since, self._is_pinged = now, False
        elif now >= self._silent_since + SILENCE_SECONDS:
            self._silent_since = math.inf
            for call in list(self._endless.values()):
                self._expire(call)
        elif not self._is_pinged and now >= self._silent_since + SILENCE_SECONDS / 2:
            self._is_pinged = True
            if self.is_connected:
                self._say("server/ping", {})

    def _begin(self) -> None:
        self._is_pinged = False
        for params in self.standing.again():
            self._say("session/presence", params)
        # Without a reason to doubt, it is not worth the round trip.
        self._is_trusted = not self._is_doubted
        self._is_asked = self._setup.hello is not None
        for call in self.calls.values():
            self._offer(call)

    def _heard(self) -> None:
        if not self._is_trusted:
            self._is_trusted = True
            for call in self.calls.values():
                if call.resend is Resend.NEVER:
                    self._offer(call)

    def _say(self, method: str, params: Mapping[str, object]) -> None:
        """Send a request whose answer no call waits for."""
        self._last_id += 1
        self.outgoing.put(wire.request(self._last_id, method, params))

    def _offer(self, call: Call) -> None:
        """Queue a call to be sent, if it may be now.

        A daemon that ends takes connections that it never serves: on one that was made again,
        what may not be sent twice waits for the first word.
        """
        if not self.is_connected or call.state is not CallState.QUEUED:
            return
        if self._is_trusted or call.resend is not Resend.NEVER:
            self.outgoing.put(call.frame, call.sent)
        elif not self._is_asked:
            self._is_asked = True
            self._say("server/ping", {})

    def _answer(self, call_id: int, answer: Raw | RpcError) -> None:
        call = self.calls.get(call_id)
        # Unknown ids are late answers to calls that timed out or were cancelled.
        if call is None:
            return
        if isinstance(answer, RpcError):
            call.refusals += 1
            call.is_outcome_unknown |= answer.kind == "storage_error" and not call.is_read
            if _may_ask_again(call, answer):
                delay = max(retry_after(answer), backoff(call.refusals, self._setup.random))
                if self._now + delay < call.deadline:
                    call.state = CallState.DELAYED
                    call.due = self._now + delay
                    self._set_timer(call.due, call)
                    return
        self._settle(call, answer)

    def _notification(self, method: str, params: Raw) -> None:
        # Nothing is subscribed on this connection, and a drain is told to each call anyway.
        if method != "$/progress":
            return
        told = wire.read(ProgressTold, params)
        call = self.calls.get(told.token)
        if call is not None and call.on_progress is not None:
            # The daemon works on it: the time for the answer begins anew.
            call.deadline = max(call.deadline, self._now + call.patience)
            self._set_timer(call.deadline, call)
            call.on_progress(told.value.done, told.value.total, told.value.unit)

    def _lost(self) -> None:
        error = self.last_loss
        self._is_doubted = not self._is_turned_away
        self.standing.lost(ConnectionLost(f"the connection broke: {error}", outcome_unknown=False))
        for call in list(self.calls.values()):
            if call.state is not CallState.SENT:
                continue
            if self._is_turned_away:
                call.state = CallState.QUEUED
                continue
            call.losses += 1
            call.is_outcome_unknown = not call.is_read
            if call.resend is not Resend.NEVER and call.losses <= RESENDS_MAX:
                call.state = CallState.QUEUED
                continue
            text = f"the connection broke before {call.method} was answered ({error})"
            if call.is_outcome_unknown:
                text += "; its outcome is unknown"
            lost = self._unanswered(ConnectionLost, text, call)
            lost.__cause__ = error
            self._settle(call, lost)

    def _refused(self, error: SessiondClientError) -> None:
        for call in list(self.calls.values()):
            self._settle(call, error)

    def _settle(self, call: Call, outcome: Raw | SessiondClientError) -> None:
        if isinstance(outcome, Raw):
            self.standing.done(call)
        self._take_out(call)
        call.settle(outcome)

    def _expire(self, call: Call) -> None:
        reason = "" if self.is_connected else f"; not connected: {self.last_loss}"
        text = f"no answer to {call.method} in time{reason}"
        expired = self._unanswered(Timeout, text, call)
        self._drop(call)
        expired.__cause__ = None if self.is_connected else self.last_loss
        call.settle(expired)

    @staticmethod
    def _unanswered(kind: type[E], text: str, call: Call) -> E:
        """Return the error of a call without an answer, which says whether the outcome is open."""
        is_open = call.may_be_done
        return kind(text, outcome_unknown=is_open, check=call.check if is_open else None)

    def _take_out(self, call: Call) -> None:
        del self.calls[call.id]
        self._endless.pop(call.id, None)

    def _drop(self, call: Call) -> None:
        self._take_out(call)
        if call.state is CallState.QUEUED:
            self.outgoing.discard(call.sent)
        elif call.state is CallState.SENT and self.is_connected:
            self.outgoing.put(wire.notification("$/cancelRequest", {"id": call.id}))

    def _set_timer(self, when: float, call: Call) -> None:
        if when < math.inf:
            heapq.heappush(self._timers, (when, call.id))

    def _due_calls(self, now: float) -> Iterator[Call]:
        while self._timers and self._timers[0][0] <= now:
            call = self.calls.get(heapq.heappop(self._timers)[1])
            if call is not None:
                yield call


def _may_ask_again(call: Call, error: RpcError) -> bool:
    if error.kind in _NOT_DONE:
        return True
    # After a failed write the daemon may find the entries at its next start:
    # only ids make it safe to ask, and only so often.
    is_storage = error.kind == "storage_error" and error.retryable
    is_keyed = call.resend is Resend.KEYED
    return is_storage and is_keyed and call.refusals <= STORAGE_RETRIES_MAX
