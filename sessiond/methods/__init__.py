"""One RPC method per file; `METHODS` is the table of contents."""

from __future__ import annotations

from typing import Any, Final

from sessiond.methods import (
    append,
    branch,
    build_context,
    close,
    compact,
    create,
    discover,
    entries,
    entry,
    exit,
    export,
    flush,
    get,
    heads,
    import_session,
    info,
    initialize,
    initialized,
    label,
    labels,
    list,
    open,
    path,
    ping,
    reset,
    rewind,
    shutdown,
    stats,
    stop,
    subscribe,
    tree,
    unsubscribe,
)
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client

__all__ = ["METHODS"]

METHODS: Final[tuple[Method[Client, Any], ...]] = (
    initialize.METHOD,
    initialized.METHOD,
    shutdown.METHOD,
    exit.METHOD,
    ping.METHOD,
    info.METHOD,
    stats.METHOD,
    stop.METHOD,
    discover.METHOD,
    create.METHOD,
    open.METHOD,
    close.METHOD,
    get.METHOD,
    list.METHOD,
    append.METHOD,
    branch.METHOD,
    reset.METHOD,
    rewind.METHOD,
    label.METHOD,
    labels.METHOD,
    heads.METHOD,
    entry.METHOD,
    entries.METHOD,
    path.METHOD,
    tree.METHOD,
    build_context.METHOD,
    compact.METHOD,
    subscribe.METHOD,
    unsubscribe.METHOD,
    flush.METHOD,
    import_session.METHOD,
    export.METHOD,
)
