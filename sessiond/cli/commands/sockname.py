"""`sessiond sockname`: where the daemon listens."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, Place, json_option, place_options

__all__ = ["COMMAND"]


@click.command("sockname", cls=Command, examples=("sessiond sockname",))
@json_option
@place_options
def sockname(place: Place, *, as_json: bool) -> None:
    """Print the path of the daemon's socket, whether or not it runs."""
    from sessiond.cli.connect.target import find_socket, profile_of
    from sessiond.cli.ui.output import emit

    path = find_socket(place)
    if as_json:
        emit({"socket": str(path), "profile": profile_of(place)})
    else:
        # For $(…): the path as it is.
        click.echo(path)


COMMAND = sockname
