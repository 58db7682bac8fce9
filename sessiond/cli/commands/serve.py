"""`sessiond serve`: run the daemon in the foreground."""

from __future__ import annotations

import gc
import os

import click

from sessiond.cli.options import Command, DaemonPlace, place_options


@click.command(
    "serve",
    cls=Command,
    examples=(
        "sessiond serve",
        "sessiond serve --profile work --idle-exit 600",
        "sessiond serve --stdio",
    ),
)
@place_options
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Least level to log.  [env: SESSIOND_LOG_LEVEL; default: info]",
)
@click.option(
    "--idle-exit",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="End after so many seconds without clients, 0 for never.  "
    "[env: SESSIOND_IDLE_EXIT_SECONDS; default: 0]",
)
@click.option("--detached", type=int, hidden=True, help="Started by another command.")
def serve(
    place: DaemonPlace,
    log_level: str | None,
    idle_exit: float | None,
    detached: int | None,
    *,
    stdio: bool,
) -> None:
    """Run the daemon in the foreground until SIGTERM, SIGINT or server/stop.

    `sessiond sockname` prints the socket. With --stdio the daemon serves its own input and
    output instead (beside the socket if --socket is given) and also ends when its input ends,
    once every request is answered. On SIGHUP it reads its configuration again. Logs go to standard
    error, never with message content.

    \b
    Exit status: 0 after an orderly end, 1 if it cannot serve, 2 for wrong usage or configuration.
    """
    if detached is not None:
        from sessiond.daemon.startup import leave_starter

        leave_starter()
    # Imports make no garbage; a search for it would be a tenth of the start.
    gc.disable()
    from sessiond.cli.connect.target import find_socket, layout_of
    from sessiond.config.configuration import JOINED_DEFAULTS, Sources
    from sessiond.daemon.daemon import DaemonOptions
    from sessiond.daemon.process import run

    given = {"log_level": log_level, "idle_exit_seconds": idle_exit, "socket": place.socket}
    sources = Sources(
        os.environ,
        place.config,
        flags={key: value for key, value in given.items() if value is not None},
        # A daemon that was started for its clients need not outlive them for long.
        defaults={} if detached is None else JOINED_DEFAULTS,
    )
    listens = place.socket is not None or not stdio
    options = DaemonOptions(
        layout=layout_of(place),
        socket=find_socket(place) if listens else None,
        stdio=stdio,
        sources=sources,
        told=detached,
    )
    raise SystemExit(run(options))


COMMAND = serve
