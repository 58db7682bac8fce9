"""The offer of one client to the daemon, and the daemon's requests, each answered once. Pure.

Law: the offer is made anew on every connection. A request is answered once, or withdrawn, with its
connection at the latest; the first of the two counts. The daemon goes on in any case, so an answer
that comes too late is dropped here, as the daemon would drop it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, Self

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.conversation import Setup
from sessiond_client.errors import ProtocolViolation, RpcError
from sessiond_client.generated.facts import SUMMARY_BYTES_MAX
from sessiond_client.generated.messages import InitializeResult, Withdrawn
from sessiond_client.generated.requests import REQUESTS, Subject, Summarize
from sessiond_client.stream import Stream

__all__ = ["Asked", "Offering"]

# What an error says to a daemon that only wants to know that there is no answer.
_DECLINED: Final = "somebody else may do it"
_FAILED: Final = "it went wrong here"


class _Fate(Enum):
    OPEN = auto()
    ANSWERED = auto()
    WITHDRAWN = auto()


class Asked:
    """A request of the daemon. In a `with`, what is raised answers it with an error at once.

    Left without an answer, the `with` passes it on. In the blocking client any thread may answer.
    """

    def __init__(self, about: Subject, number: int, reply: Callable[[Asked, bytes], None]) -> None:
        self.about = about
        self._number = number
        self._reply = reply
        self._fate = _Fate.OPEN
        self._tell: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._fate is _Fate.OPEN:
            if kind is None:
                self.pass_on()
            else:
                self._reply(self, wire.refusal(self._number, _FAILED))

    @property
    def is_withdrawn(self) -> bool:
        """True if the daemon no longer waits for the answer: it came too late, or the connection ended."""
        return self._fate is _Fate.WITHDRAWN

    def on_withdrawn(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the request is withdrawn; at once if it is. `tell` must not wait or answer.

        The withdrawal is noticed while the offer is asked for its next request.
        """
        self._tell = tell
        if self.is_withdrawn:
            tell()

    def answer(self, summary: str, *, label: str | None = None) -> None:
        """Answer with a summary; before a branch or a compaction, the summary replaces a written one.

        A label is for the summary of a branch. Raises ValueError for a summary that no daemon
        takes: a blank one, or more than 1 MiB.
        """
        if not summary.strip():
            raise ValueError("a summary that is blank is none: pass_on() leaves it to others")
        if len(summary.encode()) > SUMMARY_BYTES_MAX:
            raise ValueError(f"a summary has at most {SUMMARY_BYTES_MAX} bytes")
        labelled = {} if label is None else {"label": label}
        self._send(wire.answer(self._number, {"summary": summary, **labelled}))

    def veto(self, reason: str = "") -> None:
        """Forbid the change that the daemon asked about. Raises TypeError for a request to summarize."""
        if isinstance(self.about, Summarize):
            raise TypeError("nothing is about to happen here: pass_on() leaves it to others")
        self._send(wire.answer(self._number, {"veto": reason}))

    def pass_on(self) -> None:
        """Agree to the change; leave a summary to the next client."""
        if isinstance(self.about, Summarize):
            self._send(wire.refusal(self._number, _DECLINED))
        else:
            self._send(wire.answer(self._number, {}))

    def take_answer(self) -> int | None:
        """Return the request's id, the first time, unless the request was withdrawn; else None."""
        if self._fate is not _Fate.OPEN:
            return None
        self._fate = _Fate.ANSWERED
        return self._number

    def withdraw(self) -> None:
        """Record that the daemon no longer waits for the answer."""
        if self._fate is _Fate.OPEN:
            self._fate = _Fate.WITHDRAWN
            if self._tell is not None:
                self._tell()

    def _send(self, frame: bytes) -> None:
        if self._fate is _Fate.ANSWERED:
            raise RuntimeError("it is answered already")
        self._reply(self, frame)


class Offering(Stream[Asked]):
    """The requests that the program has not taken yet, and those without an answer."""

    def __init__(
        self,
        setup: Setup,
        *,
        summarize: bool | tuple[str, ...],
        hooks: tuple[str, ...],
        deadline: float,
    ) -> None:
        capabilities: Mapping[str, object] = {"summarize": summarize, "hooks": hooks}
        hello = {**(setup.hello or {}), "capabilities": capabilities}
        super().__init__(Setup(hello=hello, random=setup.random), deadline=deadline)
        self.reply: Callable[[Asked, bytes], None] = self.put
        """The function that sends an answer; the client replaces it with one that also wakes."""
        self._summarize = summarize
        self._hooks = hooks
        self._open: dict[int, Asked] = {}

    def put(self, asked: Asked, frame: bytes) -> None:
        """Queue the answer to a request, if the daemon still waits for the answer."""
        number = asked.take_answer()
        if number is not None:
            del self._open[number]
            self.outgoing.put(frame)

    def leave_to_parent(self) -> None:
        for asked in self._open.values():
            # What the program does on a withdrawal is the parent's.
            asked.on_withdrawn(_nothing)
        super().leave_to_parent()

    def close(self) -> None:
        super().close()
        self._withdraw_all()

    def _greeted(self, answer: Raw | RpcError) -> None:
        super()._greeted(answer)
        if isinstance(answer, RpcError):
            return
        wanted = wire.read(InitializeResult, answer).capabilities
        missing = [hook for hook in self._hooks if hook not in wanted.hooks]
        if isinstance(self._summarize, tuple):
            known = wanted.summarize_purposes
            missing += [f"a {each}" for each in self._summarize if each not in known]
        elif self._summarize and not wanted.summarize:
            missing.append("summarize")
        if missing:
            self.error = ProtocolViolation(f"this daemon asks no client for {', '.join(missing)}")
        self.is_started = True

    def _asked(self, request_id: int | str | None, method: str, params: Raw) -> None:
        kind = REQUESTS.get(method)
        if kind is None or not isinstance(request_id, int):
            super()._asked(request_id, method, params)
            return
        try:
            about = wire.read(kind, params)
        except ProtocolViolation:
            self.outgoing.put(wire.refusal(request_id, "this client cannot read it"))
            return
        asked = Asked(about, request_id, self.reply)
        self._open[request_id] = asked
        self.ready.append(asked)

    def _notification(self, method: str, params: Raw) -> None:
        if method == "$/cancelRequest":
            asked = self._open.pop(wire.read(Withdrawn, params).id, None)
            if asked is not None:
                self._withdraw(asked)

    def _lost(self) -> None:
        self._withdraw_all()

    def _withdraw_all(self) -> None:
        while self._open:
            self._withdraw(self._open.popitem()[1])

    def _withdraw(self, asked: Asked) -> None:
        asked.withdraw()
        if asked in self.ready:
            # It need not be looked at any more.
            self.ready.remove(asked)


def _nothing() -> None:
    """Do nothing."""
