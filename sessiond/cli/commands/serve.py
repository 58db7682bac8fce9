"""`sessiond serve`: the daemon, in the foreground."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, Place, place_options

__all__ = ["COMMAND"]


@click.command("serve", cls=Command)
@place_options
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
def serve(place: Place, *, stdio: bool) -> None:
    """Run the daemon in the foreground until SIGTERM, SIGINT or server/stop.

    With --stdio it also ends when its input does, once everything asked is
    answered. Logs go to standard error, never with message content.

    \b
    Exit status: 0 after an orderly end, 1 if it cannot serve, 2 for wrong usage.
    """
    from sessiond.cli.daemon import DaemonOptions, run

    if place.socket is None and not stdio:
        raise click.UsageError("say where to serve: --socket PATH, --stdio, or both")
    options = DaemonOptions(
        profile=place.profile or "default",
        home=place.home,
        socket_path=place.socket,
        stdio=stdio,
    )
    raise SystemExit(run(options))


COMMAND = serve
