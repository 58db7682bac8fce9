"""`sessiond sockname`: print the path of the daemon's socket."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options


@click.command("sockname", cls=Command, examples=("sessiond sockname",))
@json_option
@place_options
def sockname(place: DaemonPlace, *, as_json: bool) -> None:
    """Print the path of the daemon's socket, whether the daemon runs or not."""
    from sessiond.cli.connect.target import find_socket, profile_of
    from sessiond.cli.ui.output import emit

    path = find_socket(place)
    if as_json:
        emit({"socket": str(path), "profile": profile_of(place)})
    else:
        # The unchanged path, for $(…).
        click.echo(path)


COMMAND = sockname
