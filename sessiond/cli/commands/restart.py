"""`sessiond restart`: stop the daemon, then start one."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options
from sessiond.limits import STOP_SECONDS


@click.command("restart", cls=Command, examples=("sessiond restart",))
@json_option
@place_options
def restart(place: DaemonPlace, *, as_json: bool) -> None:
    """Stop the daemon if it runs, then start a new one: a new version, a new configuration.

    Clients reconnect by themselves and resume; a request that they repeat is stored once.
    """
    from sessiond.cli.connect.autostart import join
    from sessiond.cli.connect.daemon_info import running
    from sessiond.cli.connect.stopping import stop_daemon
    from sessiond.cli.ui.output import emit, say

    stopped = stop_daemon(place, STOP_SECONDS)
    joined = join(place)
    if as_json:
        facts = {"started": joined.started, "stopped": stopped is not None}
        emit({**running(joined.socket, joined.about), **facts})
    else:
        word = "restarted" if stopped is not None else "started"
        say(f"{word}: pid {joined.about.pid}, {joined.socket}")


COMMAND = restart
