"""`sessiond serve`: the daemon, in the foreground."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, Place, place_options

__all__ = ["COMMAND"]


@click.command("serve", cls=Command)
@place_options
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@click.option("--detached", type=int, hidden=True, help="Started by another command.")
def serve(place: Place, detached: int | None, *, stdio: bool) -> None:
    """Run the daemon in the foreground until SIGTERM, SIGINT or server/stop.

    It listens where `sessiond sockname` says. With --stdio it serves its own input and
    output instead (beside the socket if --socket is given) and also ends when its input does,
    once everything asked is answered. Logs go to standard error, never with message content.

    \b
    Exit status: 0 after an orderly end, 1 if it cannot serve, 2 for wrong usage.
    """
    if detached is not None:
        from sessiond.cli.startup import leave_starter

        leave_starter()
    from sessiond.cli.daemon import DaemonOptions, run
    from sessiond.cli.daemons import find_socket, layout_of

    listens = place.socket is not None or not stdio
    options = DaemonOptions(
        layout=layout_of(place),
        socket=find_socket(place) if listens else None,
        stdio=stdio,
        told=detached,
    )
    raise SystemExit(run(options))


COMMAND = serve
