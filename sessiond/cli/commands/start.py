"""`sessiond start`: start a daemon in the background, unless one runs."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options


@click.command("start", cls=Command, examples=("sessiond start", "sessiond start --json"))
@json_option
@place_options
def start(place: DaemonPlace, *, as_json: bool) -> None:
    """Start the daemon of a profile, unless it runs; return when it answers.

    Concurrent starts make one daemon. It ends by itself after half an hour without clients
    (`idle_exit_seconds` in the configuration). Its log is daemon.log in the profile's folder.
    """
    from sessiond.cli.connect.autostart import join
    from sessiond.cli.connect.daemon_info import running
    from sessiond.cli.connect.versions import tell_another
    from sessiond.cli.ui.output import emit, say

    joined = join(place)
    tell_another(joined.about.version, joined.about.build)
    if as_json:
        emit({**running(joined.socket, joined.about), "started": joined.started})
    else:
        word = "started" if joined.started else "runs already"
        say(f"{word}: pid {joined.about.pid}, {joined.socket}")


COMMAND = start
