"""What every call takes, and how a client connects and offers its help."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

Json = Mapping[str, Any]
Hook = Literal["before_compact", "before_fork", "before_branch"]
OnProgress = Callable[[int, int | None, str], None]
"""Told how far a call is: done, of how many (None: not known), of what. It returns at once."""


class Timed(TypedDict, total=False):
    """What every call takes."""

    timeout: float | None
    on_progress: OnProgress | None
    """Long work is told to it while the call waits, if the daemon has something to tell."""


class ConnectOptions(TypedDict, total=False):
    """How a client connects."""

    timeout: float | None
    """Bounds each call, with its reconnects and retries; a call may name its own."""
    connect_timeout: float
    """How long entering waits for a daemon that is not there yet; 0 = one try."""
    client_id: str
    """Names this client in the origin of its events."""
    access: Literal["write", "read", "status"]
    profile: str
    """Whose daemon, if no socket is named; default: `$SESSIOND_PROFILE`, else "default"."""
    home: str | os.PathLike[str]
    """Where that daemon keeps its sessions; default: `$SESSIOND_HOME`, else the user's data folder."""
    start: bool
    """Whether to start a daemon where nobody listens, now and after it ended. Default: only if no
    socket is named."""


class OfferOptions(Timed, total=False):
    """What a client does for the daemon: write summaries, have a word before changes.

    `hooks` True are all three. `timeout` bounds the first answer only.
    """

    summarize: bool
    hooks: bool | Sequence[Hook]
