"""`sessiond config`: show the effective configuration and its sources."""

from __future__ import annotations

import json
import os

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options


@click.command("config", cls=Command, examples=("sessiond config", "sessiond config --json"))
@json_option
@place_options
def config(place: DaemonPlace, *, as_json: bool) -> None:
    """Show the effective configuration: each key, its value and its source.

    Flags go over the environment (SESSIOND_LOG_LEVEL, SESSIOND_LIMITS_OPEN_SESSIONS), the
    environment over the file, the file over a preset, a preset over the defaults. The defaults shown
    are those of a daemon that a client's need has started; `sessiond serve` has no idle exit. A daemon reads the
    configuration again on SIGHUP.
    """
    from sessiond.cli.connect.target import bad_configuration
    from sessiond.cli.ui.output import emit, say, table
    from sessiond.config.config_file import BadConfiguration, default_file, file_of
    from sessiond.config.configuration import JOINED_DEFAULTS, Sources, load

    try:
        file = file_of(os.environ, place.config)
        sources = Sources(os.environ, place.config, _flags(place), JOINED_DEFAULTS)
        _, settings = load(sources)
    except BadConfiguration as error:
        raise bad_configuration(error) from error
    if as_json:
        emit({"file": None if file is None else str(file), "settings": settings})
        return
    if file is None:
        say(f"no file: {default_file(os.environ)} does not exist")
    rows = [(each.key, _shown(each.value), each.source) for each in settings]
    table(("KEY", "VALUE", "FROM"), rows)


def _flags(place: DaemonPlace) -> dict[str, object]:
    """Return the socket that the command line sets: its path, or None if the profile decides."""
    if place.is_named:
        return {"socket": None}
    if place.socket is not None and place.socket != os.environ.get("SESSIOND_SOCKET"):
        return {"socket": place.socket}
    return {}


def _shown(value: object) -> str:
    if value is None or value == ():
        return "-"
    if isinstance(value, (tuple, bool)):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


COMMAND = config
