"""Dispatcher: from a message to its method, and from a result to an answer.

Rule 1: every handler runs at once, in the order of the wire; nothing here waits.

Rule 2: a handler answers at once, or returns DEFERRED; the code that finishes the work then settles
the `Call` later.

Rule 3: every failure becomes exactly one error with a code. Only this module turns an unforeseen
exception into an error.

Rule 4: nothing here sends. Answers are put, and the caller that put last flushes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Meta, Raw, ValidationError

from sessiond import typed
from sessiond.errors import (
    Internal,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseFailed,
    SessiondError,
    TooLarge,
    exhausted,
)
from sessiond.limits import RETRY_AFTER_MS
from sessiond.model.deferred import DEFERRED
from sessiond.model.integers import decode_integers
from sessiond.rpc.calls import BatchAnswer, Call, CallTable, Peer, Put
from sessiond.rpc.messages import (
    ID_STARTS,
    Batch,
    Member,
    Refused,
    Request,
    Response,
    decode,
    decode_request,
    error_body,
)
from sessiond.rpc.outgoing import Outgoing
from sessiond.rpc.params import Params, RequestMeta, invalid_params
from sessiond.rpc.progress import Progress

C = TypeVar("C")
P = TypeVar("P", bound=Params)


@dataclass(frozen=True, kw_only=True)
class Method(Generic[C, P]):
    """A method: its name, its access, the types of its parameters and result, and its handler."""

    name: str
    params: type[P]
    result: Any
    handle: Callable[[C, P, Call[C]], Any]
    aliases: tuple[str, ...] = ()
    access: Literal["write", "read", "status"] = "read"
    lenient: bool = False
    """True if unknown parameters are accepted, as LSP clients send some with `initialize`."""
    errors: tuple[type[SessiondError], ...] = ()
    """Errors of this method, besides those of any method or of any method on a session."""


_ID_TYPES: Final = [{"type": "string"}, {"type": "number"}, {"type": "null"}]


class CancelParams(Params, forbid_unknown_fields=False):
    """The id of a pending request of this connection that the client gives up."""

    id: Annotated[Raw, Meta(extra_json_schema={"anyOf": _ID_TYPES})]


class _Entry(Generic[C]):
    """A method in the dispatch table, ready to decode and call."""

    __slots__ = ("decode", "handle", "method")

    def __init__(self, method: Method[C, Any]) -> None:
        self.decode: Callable[[bytes | Raw], Any] = self._decode_first
        self.handle = method.handle
        self.method = method

    def _decode_first(self, params: bytes | Raw) -> Any:
        """Decode the first parameters of the method, and make the decoder for them.

        The decoders of all methods would take a tenth of the daemon's own share of a start.
        """
        kind: type[Any] = self.method.params
        if self.method.lenient:
            kind = msgspec.defstruct(kind.__name__, [], bases=(kind,), forbid_unknown_fields=False)
        self.decode = typed.decoder(kind).decode
        return self.decode(params)


class Dispatcher(Generic[C]):
    """The methods of a daemon, shared by all its connections."""

    def __init__(
        self,
        methods: Sequence[Method[C, Any]],
        *,
        log_exception: Callable[[str, str, Exception], None],
        allow: Callable[[C, Method[C, Any]], None],
        new_incident_id: Callable[[], str] | None = None,
    ) -> None:
        self.methods = tuple(methods)
        self.allow = allow
        self._log_exception = log_exception
        numbers = count(1)
        self._new_incident_id = new_incident_id or (lambda: f"incident-{next(numbers)}")
        self.table: dict[str, _Entry[C]] = {}
        for method in self.methods:
            entry = _Entry(method)
            for name in (method.name, *method.aliases):
                assert name not in self.table, f"two methods are called {name}"
                self.table[name] = entry

    def connection(self, peer: Peer, client: C) -> Exchange[C]:
        """Return the exchange of a new connection."""
        return Exchange(self, peer, client)

    def is_question(self, name: str) -> bool:
        """Return whether repeating a call of the method changes nothing."""
        entry = self.table.get(name)
        return entry is not None and entry.method.access != "write"

    def incident(self, method: str, error: Exception) -> Internal:
        """Log an unforeseen exception; return the client's error, which names the log line."""
        incident_id = self._new_incident_id()
        self._log_exception(incident_id, method, error)
        return Internal(
            "this is a bug in sessiond; look for the incident_id in the daemon's log",
            incident_id=incident_id,
        )


class Exchange(Generic[C]):
    """The requests of one connection and their answers."""

    def __init__(self, dispatcher: Dispatcher[C], peer: Peer, client: C) -> None:
        self.client = client
        self.calls: CallTable[C] = CallTable(
            client, peer, dispatcher.incident, dispatcher.is_question
        )
        self.outgoing = Outgoing(peer)
        # The very object that marks a call whose answer goes to the connection.
        self._put = self.calls.put
        self._table = dispatcher.table
        self._allow = dispatcher.allow
        self._incident = dispatcher.incident

    @property
    def in_flight(self) -> int:
        """Number of calls without an answer yet."""
        return len(self.calls)

    def cancel_all(self) -> None:
        """Cancel every call that can still be cancelled."""
        self.calls.cancel_all()

    def receive(self, item: bytes | SessiondError) -> None:
        """Handle one body, or the error found in place of a body. Never raises."""
        if not isinstance(item, bytes):
            if isinstance(item, TooLarge):
                self.outgoing.lose()
            self._put(error_body(None, item))
            return
        try:
            request = decode_request(item)
        except (DecodeError, RecursionError):
            self._take_other(decode(item))
        except MemoryError as error:
            self._put(error_body(None, self._refusal("", error)))
        else:
            self._run(request, self._put, len(item))

    def _take_other(self, message: Member | Batch) -> None:
        """Handle a message that is not a single request."""
        if isinstance(message, Batch):
            answer = BatchAnswer(self._put)
            for member in message.members:
                if isinstance(member, Request) and member.id is not UNSET:
                    self._run(member, answer.slot(bytes(member.id)), len(member.params))
                elif isinstance(member, Request):
                    self._run(member, self._put, len(member.params))
                elif isinstance(member, Refused):
                    if not self._wants_no_answer(member):
                        answer.slot(member.id)(error_body(member.id, member.error))
                else:
                    self.outgoing.receive(member)
            answer.complete()
        elif isinstance(message, Refused):
            if not self._wants_no_answer(message):
                self._put(error_body(message.id, message.error))
        elif isinstance(message, Response):
            self.outgoing.receive(message)

    def _wants_no_answer(self, message: Refused) -> bool:
        """Return whether a message gets no answer: a notification, or an answer to our request.

        A malformed answer settles our request. A refusal under its id would look to the client like
        the answer to a request of its own.
        """
        if message.is_notification:
            return True
        return message.was_answer and self.outgoing.fail(message.id, "malformed")

    def _run(self, request: Request, put: Put, size: int) -> None:
        id_text = None
        if request.id is not UNSET:
            id_text = bytes(request.id)
            if id_text[0] not in ID_STARTS:
                put(error_body(None, InvalidRequest("an id is a string, a number or null")))
                return
        call = Call(self.calls, request.method, id_text, put, size)
        try:
            entry = self._table.get(request.method)
            if entry is None:
                result = self._own(request)
            else:
                self._allow(self.client, entry.method)
                try:
                    params = entry.decode(request.params)
                except (DecodeError, RecursionError):
                    params = _decode_params(entry.decode, entry.method, request.params)
                if params.meta:
                    _take_meta(call, params.meta)
                result = entry.handle(self.client, params, call)
        except Exception as error:  # noqa: BLE001  # rule 3: a bug in a handler ends one request
            refusal = self._refusal(request.method, error)
            if not call.settled:
                call.fail(refusal)
        else:
            if result is DEFERRED:
                call.hold()
            else:
                call.answer(result)

    def _refusal(self, method: str, error: Exception) -> SessiondError:
        if isinstance(error, SessiondError):
            # The traceback would keep the request alive until the cycle collector runs.
            return error.with_traceback(None)
        if isinstance(error, ValidationError):
            entry = self._table.get(method)
            return invalid_params(error, kind=None if entry is None else entry.method.params)
        short = exhausted(error, RETRY_AFTER_MS)
        if short is not None:
            return short
        return self._incident(method, error)

    def _own(self, request: Request) -> Any:
        """Handle `$/cancelRequest`, which belongs to JSON-RPC itself and not to the method table.

        Raises MethodNotFound for any other method.
        """
        if request.method != "$/cancelRequest":
            raise MethodNotFound("no such method", method=request.method[:100])
        params = typed.decode(request.params, CancelParams)
        if bytes(params.id)[0] not in ID_STARTS:
            raise InvalidParams("an id is a string, a number or null", path="id")
        self.calls.cancel(params.id)
        return None


def _take_meta(call: Call[C], meta: RequestMeta) -> None:
    """Apply the wishes of `_meta` to a call. A notification gets no progress: it has no answer."""
    if meta.progress_token is not UNSET and not call.is_notification:
        call.progress = Progress(meta.progress_token)


def _decode_params(decode_params: Callable[[bytes | Raw], P], method: Method[C, P], raw: Raw) -> P:
    """Return typed parameters; accept null and [] for {}, and integers in other spellings.

    Raises InvalidParams for positional parameters, ParseFailed for too deep nesting.
    """
    text = bytes(raw)
    if text == b"null" or (text[:1] == b"[" and not text[1:-1].strip()):
        text = b"{}"
    elif method.lenient and text[:1] != b"{":
        # A lenient method takes anything, and only an object can hold parameters it knows.
        text = b"{}"
    elif text[:1] == b"[":
        raise InvalidParams("parameters are named, not positional", path="")
    try:
        return decode_integers(decode_params, method.params, text)
    except RecursionError:
        raise ParseFailed("the parameters are nested too deeply") from None
