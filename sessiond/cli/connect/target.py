"""Daemon that is named: by flags, the environment, a configuration, or by default.

Law: a daemon is asked who it is only if a socket and also a profile or a home are named. No part of
the service is imported: each start of an editor runs `sessiond stdio`, which runs this module.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.failure import Failure
from sessiond.config.config_file import BadConfiguration, file_of
from sessiond.daemon.exit_status import Status
from sessiond.limits import ANSWER_SECONDS
from sessiond_client.place import DEFAULT_PROFILE, UnsafeFolder, socket_place

if TYPE_CHECKING:
    from sessiond.cli.connect.probe import About
    from sessiond.journal.profile.layout import Layout


def profile_of(place: DaemonPlace) -> str:
    """Return the profile that the place names."""
    return place.profile or DEFAULT_PROFILE


def find_socket(place: DaemonPlace) -> Path:
    """Return the path where the daemon listens, or would listen. Raise Failure.

    A profile or a home on the command line wins over a socket in the environment or in the
    configuration.
    """
    try:
        return socket_place(
            os.environ,
            socket=named_socket(place),
            profile=place.profile,
            home=place.home,
        )
    except UnsafeFolder as error:
        raise Failure(str(error), "no daemon was started", Status.NO_DAEMON) from error
    except ValueError as error:
        raise _no_profile(profile_of(place)) from error


def named_socket(place: DaemonPlace) -> str | None:
    """Return the socket that is named; None if profile and home decide. Raise Failure."""
    if place.is_named:
        return None
    return place.socket or _configured_socket(place)


def _configured_socket(place: DaemonPlace) -> str | None:
    try:
        if file_of(os.environ, place.config) is None:
            return None
        # Imported here: without a configuration file the reader is not needed.
        from sessiond.config.configuration import Sources, load

        return load(Sources(os.environ, place.config))[0].socket
    except BadConfiguration as error:
        raise bad_configuration(error) from error


def bad_configuration(error: BadConfiguration) -> Failure:
    """Return a configuration error as wrong usage, independent of its source."""
    return Failure(str(error), error.then, Status.USAGE, {"kind": "configuration"})


def layout_of(place: DaemonPlace) -> Layout:
    """Return the folders of the profile. Raise Failure."""
    from sessiond.journal.profile.layout import Layout, data_home, is_profile

    profile = profile_of(place)
    if not is_profile(profile):
        raise _no_profile(profile)
    home = Path(place.home).expanduser().absolute() if place.home else ""
    return Layout(data_home({**os.environ, "SESSIOND_HOME": str(home)}), profile)


def _no_profile(profile: str) -> Failure:
    what = f"{profile!r} cannot be a profile"
    return Failure(what, "use a plain name of A-Z a-z 0-9 _ . -", Status.USAGE)


def require_meant_on(place: DaemonPlace, path: Path) -> None:
    """Ask who listens on a socket that is named beside a profile or a home. Raise Failure.

    No question is sent if only one of them is named, or no daemon listens.
    """
    if (place.profile is None and place.home is None) or named_socket(place) is None:
        return
    # Imported here: a start of a daemon names its socket, and asks no other daemon.
    from sessiond.cli.connect.probe import about

    found = about(path, ANSWER_SECONDS)
    if found is not None:
        require_meant(place, path, found)


def require_meant(place: DaemonPlace, path: Path, found: About) -> None:
    """Raise Failure if the listening daemon is not the named one."""
    if place.profile is not None and found.profile != place.profile:
        meant, is_served = f"profile {place.profile}", f"profile {found.profile}"
    elif (
        place.home is not None and found.home.resolve() != (home := layout_of(place).home).resolve()
    ):
        meant, is_served = f"sessions in {home}", f"sessions in {found.home}"
    else:
        return
    what = f"the daemon on {path} serves {is_served}, not {meant}"
    raise Failure(what, "give the --socket of the other daemon, or no --socket", Status.NO_DAEMON)
