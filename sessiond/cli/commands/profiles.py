"""`sessiond profiles`: list the profiles of a home."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options


@click.command("profiles", cls=Command, examples=("sessiond profiles", "sessiond profiles --json"))
@json_option
@place_options
def profiles(place: DaemonPlace, *, as_json: bool) -> None:
    """List the profiles of a home, and which of them have a daemon running."""
    from sessiond.cli.connect.daemon_info import profiles_of
    from sessiond.cli.connect.target import layout_of
    from sessiond.cli.ui.output import emit, say, table

    home = layout_of(place).home
    found = profiles_of(home)
    if as_json:
        emit({"home": str(home), "profiles": found})
    elif not found:
        say(f"no profiles in {home}")
    else:
        rows = [
            (
                profile.name,
                "running" if profile.running else "stopped",
                "" if profile.pid is None else str(profile.pid),
                profile.socket or "",
            )
            for profile in found
        ]
        table(("PROFILE", "DAEMON", "PID", "SOCKET"), rows)


COMMAND = profiles
