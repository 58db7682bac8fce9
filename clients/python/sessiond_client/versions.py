"""Comparison of the daemon with the program that this client was made for.

Law: a difference is told and never refused: what one side does not know of the other, it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.errors import ProtocolViolation
from sessiond_client.generated.facts import VERSION
from sessiond_client.generated.messages import InitializeResult

__all__ = ["Introduction", "compared", "difference", "warn"]


class Introduction:
    """Words of a daemon about itself, passed on once for each daemon that a client meets."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._met = ""

    def met(self, answer: Raw) -> None:
        """Take the answer to `initialize`."""
        try:
            found = wire.read(InitializeResult, answer)
        except (ProtocolViolation, RecursionError):
            return  # The calls behind it find out whether a daemon answers here.
        if found.instance_id != self._met:
            self._met = found.instance_id
            self._tell(found.server_info.version, found.server_info.build)


def difference(version: str, build: str = "", own_build: str = "") -> str | None:
    """Return a line about a daemon that is of another version than this client; None if both are equal.

    `own_build` is the build id of a program that was installed together with a daemon.
    """
    found = compared(version, build, own_build)
    return None if found is None else f"{found}: `sessiond restart` replaces it"


def compared(version: str, build: str = "", own_build: str = "") -> str | None:
    """Return the line of `difference` without its advice."""
    if version != VERSION:
        age = "newer" if _numbers(version) > _numbers(VERSION) else "older"
        what = f"{age} ({version or 'unnamed'}) than this program ({VERSION})"
    elif own_build and build != own_build:
        what = f"another build ({build or 'unnamed'}) of {VERSION} than this program ({own_build})"
    else:
        return None
    return f"the running daemon is {what}"


def warn(version: str, _: str) -> None:
    """Log a difference as a warning of the logger `sessiond_client`."""
    if (text := difference(version)) is not None:
        import logging

        logging.getLogger("sessiond_client").warning("%s", text)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", version)]
