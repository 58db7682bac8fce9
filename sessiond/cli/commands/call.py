"""`sessiond call`: call any method of the protocol."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import Raw

from sessiond import typed
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.output import emit, emit_raw, say
from sessiond.daemon.exit_status import Status


class _Method(click.ParamType[str]):
    name = "method"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        return [CompletionItem(name) for name in _method_names() if name.startswith(incomplete)]


@click.command(
    "call",
    cls=Command,
    examples=(
        "sessiond call server/ping",
        "sessiond call session/entries session_id=my-session-id limit=2",
        "sessiond call append session_id=my-session-id message=@message.json",
        """sessiond call session/list '{"limit":1}'""",
        "echo '{}' | sessiond call server/info -",
        "sessiond call --list",
    ),
)
@shared_options
@click.option("--list", "list_methods", is_flag=True, help="Print the names of the methods.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Longest wait for the answer.  [default: none]",
)
@click.argument("method", type=_Method(), required=False)
@click.argument("params", nargs=-1, metavar="[KEY=VALUE]...")
def call(
    shared: Shared,
    method: str | None,
    params: tuple[str, ...],
    *,
    list_methods: bool,
    timeout: float | None,
) -> None:
    """Call METHOD and print its result as JSON.

    A VALUE is JSON if it parses as JSON, else text; @FILE and - stand for the content of a file
    or of standard input, read by this rule too. So title=hi is a text, limit=2 a number,
    title='"2"' a text again. Instead of pairs, one argument may hold all params as an object:
    JSON, @FILE or -.
    """
    if list_methods:
        names = _method_names()
        if shared.as_json:
            emit({"methods": names})
        else:
            say("\n".join(names))
        return
    if method is None:
        raise click.UsageError("name a METHOD; --list prints the methods")
    wanted = _params(params)
    from sessiond.cli.connect.one_call import call_once
    from sessiond_client import RpcError

    try:
        result = call_once(shared, method, wanted, timeout=timeout)
    except RpcError as error:
        if error.kind == "method_not_found":
            raise _unknown(method) from error
        raise
    emit_raw(result)


def _params(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the params that the arguments spell, each value as JSON."""
    if len(arguments) == 1 and _is_whole(arguments[0]):
        try:
            return typed.decode(_read(arguments[0]), dict[str, Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise click.UsageError(f"params must be a JSON object: {error}") from error
    params: dict[str, Any] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{argument!r} is not KEY=VALUE")
        if key in params:
            raise click.UsageError(f"{key} is given twice")
        params[key] = _value(_read(value))
    return params


def _is_whole(argument: str) -> bool:
    return argument == "-" or argument.startswith(("{", "@"))


def _read(value: str) -> bytes:
    if value == "-":
        return sys.stdin.buffer.read()
    return Path(value[1:]).read_bytes() if value.startswith("@") else value.encode()


def _value(data: bytes) -> Raw | str:
    try:
        return typed.decode(data, Raw)
    except (msgspec.DecodeError, RecursionError):
        return data.decode()


def _method_names() -> list[str]:
    from sessiond.methods import METHODS

    return sorted(name for method in METHODS for name in (method.name, *method.aliases))


def _unknown(method: str) -> Failure:
    near = difflib.get_close_matches(method, _method_names(), cutoff=0.7)
    then = f"did you mean {' or '.join(near)}?" if near else "see `sessiond call --list`"
    facts = {"kind": "method_not_found", "method": method, "near": near}
    return Failure(f"there is no method {method}", then, Status.USAGE, facts)


COMMAND = call
