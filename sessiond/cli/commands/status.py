"""`sessiond status`: print whether the daemon runs, and its load."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options
from sessiond.daemon.exit_status import Status


@click.command("status", cls=Command, examples=("sessiond status", "sessiond status --json"))
@json_option
@place_options
@click.pass_context
def status(context: click.Context, place: DaemonPlace, *, as_json: bool) -> None:
    """Print whether the daemon of a profile runs, and its load.

    \b
    Exit status: 0 the daemon runs, 3 it does not.
    """
    from sessiond.cli.connect.daemon_info import running
    from sessiond.cli.connect.probe import about, ask_once, who_serves
    from sessiond.cli.connect.target import find_socket, layout_of, require_meant
    from sessiond.cli.connect.versions import tell_another
    from sessiond.cli.ui.command_terms import placed
    from sessiond.cli.ui.output import emit, say
    from sessiond.limits import ANSWER_SECONDS
    from sessiond.visible import counted, index_state

    path = find_socket(place)
    found = about(path, ANSWER_SECONDS)
    if found is not None:
        require_meant(place, path, found)
    stats = ask_once(path, "server/stats", seconds=ANSWER_SECONDS) if found is not None else None
    if found is None or stats is None:
        layout = layout_of(place)
        serving = who_serves(layout)
        why = "" if serving is None else f": {serving} serves the profile and {serving.place}"
        if as_json:
            facts = {"profile": layout.profile, "home": str(layout.home)}
            emit({"running": False, "socket": str(path), **facts})
        else:
            say(f"not running: no daemon listens on {path}{why}")
        context.exit(Status.NO_DAEMON)
    tell_another(found.version, found.build)
    if as_json:
        busy = {name: value for name, value in stats.items() if name != "sessions"}
        emit({**running(path, found), "started_at": found.started_at, **busy})
        return
    say(f"running: pid {found.pid}, version {found.version}, since {found.started_at}")
    say(f"profile {found.profile}, {found.folder}")
    say(f"listens on {path}")
    if (database := stats.get("database")) is not None:
        since = database["unreachable_since"]
        state = "" if since is None else f", which has not answered since {since}"
        say(f"sessions in {database['name']}{state}")
        if not database.get("notifications", True):
            say(placed("notifications of the database do not come through: see `sessiond doctor`"))
    counts = (
        counted(stats["clients"], "client"),
        counted(stats["sessions_open"], "open session"),
        counted(stats["requests_waiting"], "waiting request"),
    )
    say(", ".join(counts))
    if (index := index_state(stats.get("index"))) is not None:
        say(f"search index: {index}")
    if stats["draining"]:
        say("the daemon is about to end")


COMMAND = status
