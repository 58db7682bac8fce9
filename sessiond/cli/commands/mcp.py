"""`sessiond mcp`: the server of the Model Context Protocol that an MCP client starts."""

from __future__ import annotations

import click

from sessiond.cli.options import (
    Command,
    DaemonPlace,
    Shared,
    place_options,
    start_option,
    stdio_option,
)


@click.command(
    "mcp",
    cls=Command,
    examples=("sessiond mcp", "sessiond mcp --write --profile work"),
)
@place_options
@stdio_option
@start_option
@click.option("--write", "may_write", is_flag=True, help="Offer tools that append and fork.")
def mcp(place: DaemonPlace, *, may_start: bool, may_write: bool) -> None:
    """Offer sessions to MCP clients: resources to read and watch, tools to search.

    A server of the Model Context Protocol on standard input and output. The server reads only,
    unless --write is given. The daemon is started if none runs. docs/mcp.md says how to register
    the server. Logs go to standard error, never with content.
    """
    from importlib.util import find_spec

    from sessiond.cli.connect.autostart import join
    from sessiond.cli.connect.conversation import restarting
    from sessiond.cli.connect.target import find_socket, require_meant_on
    from sessiond.cli.ui.failure import Failure
    from sessiond.daemon.exit_status import Status
    from sessiond.daemon.process_log import configure_log
    from sessiond.installation import adding

    if find_spec("mcp") is None:
        raise Failure("the package mcp is not installed", adding("mcp"))

    from sessiond.mcp.server import serve
    from sessiond_client import SessiondClientError

    configure_log()
    path = join(place).socket if may_start else find_socket(place)
    require_meant_on(place, path)
    try:
        serve(
            path, restarting(Shared(place, as_json=False, may_start=may_start)), may_write=may_write
        )
    except SessiondClientError as error:
        what = f"no daemon answers on {path}: {error}"
        raise Failure(what, "start it with `sessiond start`", Status.NO_DAEMON) from error


COMMAND = mcp
