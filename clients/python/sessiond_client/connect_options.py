"""Options of every call, of a connection, and of an offer to help the daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

Json = Mapping[str, Any]
Hook = Literal["before_compact", "before_fork", "before_branch", "before_switch"]
Purpose = Literal["compaction", "merge", "squash", "branch"]
OnProgress = Callable[[int, int | None, str], None]
"""Told how far a call is: done, of how many (None: not known), of what. It returns at once."""


class Timed(TypedDict, total=False):
    """Options of every call."""

    timeout: float | None
    """Seconds until the answer; with `on_progress` counted anew from each report."""
    on_progress: OnProgress | None
    """Long work is told to it while the call waits, if the daemon has something to tell."""


def wire_params(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call that are sent; those of `Timed` stay with the client."""
    return {name: value for name, value in options.items() if name not in Timed.__annotations__}


class ConnectOptions(TypedDict, total=False):
    """Options of a connection."""

    timeout: float | None
    """Bounds each call, with its reconnects and retries; a call may name its own."""
    connect_timeout: float
    """Seconds that entering waits for a daemon that is not there yet; 0 = one try."""
    client_id: str
    """Names this client in the origin of its events."""
    access: Literal["write", "read", "status"]
    profile: str
    """Profile of the daemon, if no socket is named; default: `$SESSIOND_PROFILE`, else "default"."""
    home: str | os.PathLike[str]
    """Folder in which that daemon keeps its sessions; default: `$SESSIOND_HOME`, else the user's data folder."""
    start: bool
    """True to start a daemon where none listens, now and after the daemon ended. Default: only if
    no socket is named."""
    restart: bool
    """True to start a daemon where one ends while a call waits for it, also where `start` is False. Subscriptions
    start none then. Default: False."""
    on_daemon: Callable[[str, str], None]
    """Told version and build id of each daemon that the client meets, once. It returns at once. Default:
    the logger `sessiond_client` warns of a daemon of another version."""
    peer_uid: int
    """User who may listen on the socket beside the own user and root. Anyone else is sent nothing: see
    `ForeignSocket`."""


class OfferOptions(Timed, total=False):
    """Options of an offer to the daemon: write summaries, be asked before changes.

    `summarize` True is for compactions; a list names the purposes. `hooks` True are all three.
    `timeout` bounds the first answer only.
    """

    summarize: bool | Sequence[Purpose]
    hooks: bool | Sequence[Hook]
