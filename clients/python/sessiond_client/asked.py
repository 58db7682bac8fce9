"""Requests of the daemon to a client, and the one answer to each. Pure.

Law: a request is answered once, or withdrawn; the first of the two counts. The daemon goes on in
any case, so an answer that comes too late is dropped here, as the daemon would drop it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Self

from sessiond_client import wire
from sessiond_client.generated.facts import SUMMARY_BYTES_MAX
from sessiond_client.generated.requests import (
    BeforeBranch,
    BeforeCompact,
    BeforeFork,
    Subject,
    Summarize,
)

__all__ = [
    "Asked",
    "BeforeBranch",
    "BeforeCompact",
    "BeforeFork",
    "Summarize",
]

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

    def answer(self, summary: str) -> None:
        """Answer with a summary; before a branch or a compaction, the summary replaces the caller's.

        Raises ValueError for a summary that no daemon takes: a blank one, or more than 1 MiB.
        """
        if not summary.strip():
            raise ValueError("a summary that is blank is none: pass_on() leaves it to others")
        if len(summary.encode()) > SUMMARY_BYTES_MAX:
            raise ValueError(f"a summary has at most {SUMMARY_BYTES_MAX} bytes")
        self._settle({"summary": summary})

    def veto(self, reason: str = "") -> None:
        """Forbid the change that the daemon asked about. Raises TypeError for a request to summarize."""
        if isinstance(self.about, Summarize):
            raise TypeError("nothing is about to happen here: pass_on() leaves it to others")
        self._settle({"veto": reason})

    def pass_on(self) -> None:
        """Agree to the change; leave a summary to the next client."""
        if isinstance(self.about, Summarize):
            self._send(wire.refusal(self._number, _DECLINED))
        else:
            self._settle({})

    def take_answer(self) -> int | None:
        """Its id, the first time, unless it was withdrawn: then there is an answer to send."""
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

    def _settle(self, result: dict[str, str]) -> None:
        self._send(wire.answer(self._number, result))

    def _send(self, frame: bytes) -> None:
        if self._fate is _Fate.ANSWERED:
            raise RuntimeError("it is answered already")
        self._reply(self, frame)
