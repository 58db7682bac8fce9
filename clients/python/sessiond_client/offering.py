"""The offer of one client to the daemon, over any number of connections. Pure.

Law: the offer is made anew on every connection. A request lives no longer than its connection: the
request is answered there, or withdrawn with the connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.asked import Asked
from sessiond_client.conversation import Setup
from sessiond_client.errors import ProtocolViolation, RpcError
from sessiond_client.generated.messages import InitializeResult, Withdrawn
from sessiond_client.generated.requests import REQUESTS
from sessiond_client.stream import Stream

__all__ = ["Offering"]


class Offering(Stream[Asked]):
    """The requests that the program has not taken yet, and those without an answer."""

    def __init__(
        self, setup: Setup, *, summarize: bool, hooks: tuple[str, ...], deadline: float
    ) -> None:
        capabilities: Mapping[str, object] = {"summarize": summarize, "hooks": hooks}
        hello = {**(setup.hello or {}), "capabilities": capabilities}
        super().__init__(Setup(hello=hello, random=setup.random), deadline=deadline)
        self.reply = self.put
        """The function that sends an answer; the driver replaces it with one that also wakes."""
        self._summarize = summarize
        self._hooks = hooks
        self._open: dict[int, Asked] = {}

    def put(self, asked: Asked, frame: bytes) -> None:
        """Queue the answer to a request, if the daemon still waits for the answer."""
        number = asked.take_answer()
        if number is not None:
            del self._open[number]
            self.outgoing.put(frame)

    def close(self) -> None:
        super().close()
        self._withdraw_all()

    def _begin(self) -> None:
        # Everything is offered in the greeting.
        return

    def _greeted(self, answer: Raw | RpcError) -> None:
        super()._greeted(answer)
        if isinstance(answer, RpcError):
            self._last_loss = answer
            return
        wanted = wire.read(InitializeResult, answer).capabilities
        missing = [hook for hook in self._hooks if hook not in wanted.hooks]
        if self._summarize and not wanted.summarize:
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
        asked = Asked(about, request_id, lambda asked, frame: self.reply(asked, frame))
        self._open[request_id] = asked
        self.ready.append(asked)

    def _result(self, call_id: int, result: Raw) -> None:  # noqa: ARG002 - nothing is asked here
        raise ProtocolViolation(f"an answer to {call_id}, which was not asked")

    def _notification(self, method: str, params: Raw, size: int) -> None:  # noqa: ARG002 - nothing is held
        if method == "$/cancelRequest":
            asked = self._open.pop(wire.read(Withdrawn, params).id, None)
            if asked is not None:
                self._withdraw(asked)

    def _lost(self, error: Exception) -> None:
        super()._lost(error)
        self._withdraw_all()

    def _withdraw_all(self) -> None:
        while self._open:
            self._withdraw(self._open.popitem()[1])

    def _withdraw(self, asked: Asked) -> None:
        asked.withdraw()
        if asked in self.ready:
            # It need not be looked at any more.
            self.ready.remove(asked)
