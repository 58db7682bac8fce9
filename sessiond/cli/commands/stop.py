"""`sessiond stop`: stop the daemon in an orderly way."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options
from sessiond.limits import STOP_SECONDS


@click.command("stop", cls=Command, examples=("sessiond stop", "sessiond stop --timeout 5"))
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=STOP_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for the end of the process.",
)
@json_option
@place_options
def stop(place: DaemonPlace, timeout: float, *, as_json: bool) -> None:
    """Stop the daemon of a profile; return when its process is gone.

    Clients are told, received requests are stored and answered, then the daemon ends. A daemon
    that does not run is no failure.
    """
    from sessiond.cli.connect.stopping import stop_daemon
    from sessiond.cli.ui.output import emit, say

    pid = stop_daemon(place, timeout)
    if as_json:
        emit({"running": False, "stopped": pid is not None, "pid": pid})
    else:
        say("no daemon runs" if pid is None else f"stopped: pid {pid}")


COMMAND = stop
