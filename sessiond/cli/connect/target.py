"""Which daemon is meant: by flags, the environment, a configuration, or by default.

Law: a daemon is asked who it is only where a socket and a profile or a home were named.
Nothing of the service is imported: `sessiond stdio` goes through here each time an editor
opens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sessiond.cli.connect.probe import About, about
from sessiond.cli.options import Place
from sessiond.cli.ui.failures import Failure
from sessiond.config.config_file import BadConfiguration, file_of
from sessiond.daemon.exit_status import Status
from sessiond.limits import ANSWER_SECONDS
from sessiond_client.place import DEFAULT_PROFILE, UnsafeFolder, socket_place

if TYPE_CHECKING:
    from sessiond.journal.profile.layout import Layout

__all__ = [
    "bad_configuration",
    "find_socket",
    "layout_of",
    "named_socket",
    "profile_of",
    "require_meant",
    "require_meant_on",
]


def profile_of(place: Place) -> str:
    """The profile that is meant."""
    return place.profile or DEFAULT_PROFILE


def find_socket(place: Place) -> Path:
    """Return where the daemon listens, or would. Raises Failure.

    A profile or a home on the command line wins over a socket in the environment or in
    the configuration.
    """
    try:
        return socket_place(
            os.environ,
            socket=named_socket(place),
            profile=place.profile,
            home=place.home,
        )
    except UnsafeFolder as error:
        raise Failure(str(error), "nothing was started", Status.NO_DAEMON) from error
    except ValueError as error:
        raise _no_profile(profile_of(place)) from error


def named_socket(place: Place) -> str | None:
    """Return the socket that was named; None where profile and home decide. Raises Failure."""
    if place.is_named:
        return None
    return place.socket or _configured_socket(place)


def _configured_socket(place: Place) -> str | None:
    try:
        if file_of(os.environ, place.config) is None:
            return None
        # Only who has a file waits for what reads it.
        from sessiond.config.configuration import Sources, load

        return load(Sources(os.environ, place.config))[0].socket
    except BadConfiguration as error:
        raise bad_configuration(error) from error


def bad_configuration(error: BadConfiguration) -> Failure:
    """What is wrong with a configuration is wrong usage, wherever it was written."""
    return Failure(str(error), "mend it there", Status.USAGE, {"kind": "configuration"})


def layout_of(place: Place) -> Layout:
    """The folders of the profile. Raises Failure."""
    from sessiond.journal.profile.layout import Layout, data_home, is_profile

    profile = profile_of(place)
    if not is_profile(profile):
        raise _no_profile(profile)
    home = Path(place.home).expanduser().absolute() if place.home else ""
    return Layout(data_home({**os.environ, "SESSIOND_HOME": str(home)}), profile)


def _no_profile(profile: str) -> Failure:
    what = f"{profile!r} cannot be a profile"
    return Failure(what, "a plain name of A-Z a-z 0-9 _ . - is needed", Status.USAGE)


def require_meant_on(place: Place, path: Path) -> None:
    """Ask who listens on a socket that was named beside a profile or a home. Raises Failure.

    Nothing is asked where only one of them was named, or nobody listens.
    """
    if (place.profile is None and place.home is None) or named_socket(place) is None:
        return
    found = about(path, ANSWER_SECONDS)
    if found is not None:
        require_meant(place, path, found)


def require_meant(place: Place, path: Path, found: About) -> None:
    """Raises Failure when who listens is not who was asked for by name."""
    if place.profile is not None and found.profile != place.profile:
        meant, is_served = f"profile {place.profile}", f"profile {found.profile}"
    elif (
        place.home is not None and found.home.resolve() != (home := layout_of(place).home).resolve()
    ):
        meant, is_served = f"sessions in {home}", f"those in {found.home}"
    else:
        return
    what = f"the daemon on {path} serves {is_served}, not {meant}"
    raise Failure(what, "give --socket of the one you mean, or none", Status.NO_DAEMON)
