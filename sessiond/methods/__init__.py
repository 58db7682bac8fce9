"""RPC methods, one per file; `METHODS` is the table of contents.

_shared/        helpers of several methods
session/        `session/…`
server/         `server/…`
catalog/        `catalog/…`
scope/          `scope/…`
retention/      `retention/…`
state/          `state/…`
secret/         `secret/…`
rpc/            `rpc.…`
initialize.py   `initialize`
initialized.py  `initialized`
shutdown.py     `shutdown`
exit.py         `exit`
"""

from __future__ import annotations

from typing import Any, Final

from sessiond.methods import exit, initialize, initialized, shutdown
from sessiond.methods.catalog import forest as catalog_forest
from sessiond.methods.catalog import roots as catalog_roots
from sessiond.methods.catalog import subscribe as catalog_subscribe
from sessiond.methods.catalog import unsubscribe as catalog_unsubscribe
from sessiond.methods.retention import run as retention
from sessiond.methods.rpc import discover
from sessiond.methods.scope import resolve as scope_resolve
from sessiond.methods.scope import switch as scope_switch
from sessiond.methods.secret import delete as secret_delete
from sessiond.methods.secret import get as secret_get
from sessiond.methods.secret import list as secret_list
from sessiond.methods.secret import rotate as secret_rotate
from sessiond.methods.secret import set as secret_set
from sessiond.methods.server import info, ping, stats, stop
from sessiond.methods.session import (
    acquire,
    append,
    archive,
    artifact,
    branch,
    brief,
    build_context,
    close,
    compact,
    continue_recent,
    create,
    decide,
    delete,
    entries,
    entry,
    export,
    flush,
    forget,
    fork,
    get,
    heads,
    import_,
    label,
    labels,
    list,
    merge,
    navigate,
    open,
    path,
    plan_branch_summary,
    plan_compaction,
    plan_merge,
    presence,
    prune,
    purge,
    queue,
    rebase,
    release,
    renew,
    repair,
    reset,
    resolve,
    resolve_entries,
    restore,
    rewind,
    search,
    signal,
    subscribe,
    task,
    trash,
    tree,
    turns,
    unarchive,
    unsubscribe,
    update,
    usage,
    verify,
)
from sessiond.methods.session import stats as session_stats
from sessiond.methods.state import all as state_all
from sessiond.methods.state import delete as state_delete
from sessiond.methods.state import get as state_get
from sessiond.methods.state import list as state_list
from sessiond.methods.state import load as state_load
from sessiond.methods.state import save as state_save
from sessiond.methods.state import set as state_set
from sessiond.methods.state import subscribe as state_subscribe
from sessiond.methods.state import unsubscribe as state_unsubscribe
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client

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
    update.METHOD,
    list.METHOD,
    resolve.METHOD,
    continue_recent.METHOD,
    catalog_subscribe.METHOD,
    catalog_unsubscribe.METHOD,
    catalog_forest.METHOD,
    scope_resolve.METHOD,
    scope_switch.METHOD,
    catalog_roots.METHOD,
    state_get.METHOD,
    state_set.METHOD,
    state_delete.METHOD,
    state_all.METHOD,
    state_list.METHOD,
    state_load.METHOD,
    state_save.METHOD,
    state_subscribe.METHOD,
    state_unsubscribe.METHOD,
    secret_get.METHOD,
    secret_set.METHOD,
    secret_delete.METHOD,
    secret_list.METHOD,
    secret_rotate.METHOD,
    append.METHOD,
    branch.METHOD,
    navigate.METHOD,
    plan_branch_summary.METHOD,
    reset.METHOD,
    rewind.METHOD,
    search.METHOD,
    label.METHOD,
    labels.METHOD,
    heads.METHOD,
    entry.METHOD,
    resolve_entries.METHOD,
    entries.METHOD,
    path.METHOD,
    tree.METHOD,
    turns.METHOD,
    build_context.METHOD,
    plan_compaction.METHOD,
    compact.METHOD,
    usage.METHOD,
    session_stats.METHOD,
    subscribe.METHOD,
    unsubscribe.METHOD,
    flush.METHOD,
    acquire.METHOD,
    renew.METHOD,
    release.METHOD,
    signal.METHOD,
    presence.METHOD,
    decide.METHOD,
    artifact.METHOD,
    task.METHOD,
    prune.METHOD,
    brief.METHOD,
    fork.METHOD,
    rebase.METHOD,
    plan_merge.METHOD,
    merge.METHOD,
    import_.METHOD,
    export.METHOD,
    archive.METHOD,
    unarchive.METHOD,
    delete.METHOD,
    trash.METHOD,
    restore.METHOD,
    forget.METHOD,
    purge.METHOD,
    queue.METHOD,
    retention.METHOD,
    verify.METHOD,
    repair.METHOD,
)
