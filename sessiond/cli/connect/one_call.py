"""One request on a connection of its own, for `sessiond call`.

Law: the typed request is the sent request: only a progress token is added, nothing is retried,
and unknown methods are sent like known ones. The daemon is asked who it is before the request.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from msgspec import UNSET, Struct

from sessiond import typed
from sessiond.cli.connect.conversation import started
from sessiond.cli.connect.probe import connect
from sessiond.cli.connect.target import find_socket, require_meant_on
from sessiond.cli.connect.versions import tell_another
from sessiond.cli.options import Shared
from sessiond.cli.ui.progress import Steps
from sessiond_client import ConnectionLost, Timeout, wire
from sessiond_client.generated.facts import ALIASES, CHECKS, READS
from sessiond_client.versions import Introduction

_HELLO_ID = 0
_ID = 1


class _Progress(Struct):
    done: int
    total: int | None
    unit: str


class _Told(Struct):
    value: _Progress


def call_once(
    shared: Shared, method: str, params: Mapping[str, Any], *, timeout: float | None
) -> bytes:
    """Return the result as received bytes. Raise RpcError, ConnectionLost, Timeout, Failure."""
    name = ALIASES.get(method, method)
    may_change, check = name not in READS, CHECKS.get(name)
    frame = wire.request(_ID, method, {"_meta": {"progress_token": _ID}, **params})
    steps = Steps(method)
    with closing(_connected(shared, timeout)) as sock:
        try:
            sock.sendall(wire.request(_HELLO_ID, "initialize", {}) + frame)
            return _result(sock, steps)
        except TimeoutError as error:
            what = f"no answer to {method} in {timeout} s"
            raise Timeout(what, outcome_unknown=may_change, check=check) from error
        except (BrokenPipeError, ConnectionResetError) as error:
            what = f"the connection broke: {error}"
            raise ConnectionLost(what, outcome_unknown=may_change, check=check) from error
        finally:
            steps.end()


def _connected(shared: Shared, timeout: float | None) -> socket.socket:
    path = find_socket(shared.place)
    require_meant_on(shared.place, path)
    sock = connect(path, timeout)
    if sock is None:
        sock = connect(started(shared), timeout)
    if sock is None:
        raise ConnectionLost("the daemon ended right after its start", outcome_unknown=False)
    return sock


def _result(sock: socket.socket, steps: Steps) -> bytes:
    """Return the result. Raise RpcError, OSError."""
    introduction = Introduction(tell_another)
    with sock.makefile("rb") as lines:
        for line in lines:
            message = wire.decode(line)
            if message.method == "$/progress":
                told = typed.decode(message.params, _Told).value
                steps.report(told.done, told.total, told.unit)
            elif message.id == _HELLO_ID:
                if message.result is not UNSET:
                    introduction.met(message.result)
            elif message.error is not UNSET and message.method is UNSET:
                raise wire.rpc_error(message.error)
            elif message.result is not UNSET and message.id == _ID:
                return bytes(message.result)
    raise ConnectionResetError("the daemon closed the connection before it answered")
