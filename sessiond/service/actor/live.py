"""The parts of an actor for one open file.

All of them are replaced when another file takes the place of the open one. Only the hub and its
subscribers stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from sessiond.errors import SessiondError
from sessiond.service.actor.inbox import Inbox
from sessiond.service.actor.leases import Leases
from sessiond.service.actor.plan_files import PlanFiles
from sessiond.service.actor.shared_leases import SharedLeases
from sessiond.service.actor.writer import SessionWriter, WriterStatistics
from sessiond.service.context.cache_budget import CacheBudget
from sessiond.service.context.context_cache import ContextCache
from sessiond.service.context.token_counts import TokenCounts
from sessiond.service.context.view_cache import ViewCache
from sessiond.service.environment import Environment
from sessiond.service.external.change_monitor import WatchSession
from sessiond.service.log.log_reader import LogReader
from sessiond.service.log.open_session import OpenSession
from sessiond.service.pubsub.hub import Hub, HubStatistics
from sessiond.service.pubsub.messenger import FindCompany, Messenger
from sessiond.service.store.lease_table import LeaseTable
from sessiond.service.thread_pool import StoreThreads, ThreadPool
from sessiond.session.tree import ChildIndex


class SessionDeps(Struct, frozen=True):
    """The services that all sessions of a daemon share."""

    environment: Environment
    files: StoreThreads
    """Threads of sessions that are files."""
    shared: StoreThreads
    """Threads of sessions that other daemons serve, too."""
    lease_threads: ThreadPool
    opening_threads: ThreadPool
    next_lease_epoch: Callable[[], int]
    lease_table: Callable[[OpenSession], LeaseTable | None] | None
    company: FindCompany | None
    reopen: Callable[[OpenSession], OpenSession]
    look_around: Callable[[], Awaitable[bool]]
    """Looks for files that came, before a session counts as missing; returns whether any may have come."""
    look_before_creation: Callable[[], Awaitable[None]]
    """Looks for files that came, before a session gets an id that one of these files may have."""
    place_of: Callable[[OpenSession], Path | None]
    """Returns the path to which a session's file was moved, as far as a look around has found out."""
    watch: WatchSession
    was_closed: Callable[[OpenSession], None]
    """Counts a session that another one has replaced."""
    caches: CacheBudget


class HostStatistics(Struct, frozen=True):
    """Counters of one open session."""

    seq: int
    inbox: int
    writer: WriterStatistics
    hub: HubStatistics


class Live(Struct, frozen=True, eq=False):
    """A session that is served."""

    opened: OpenSession
    log: LogReader
    """Its stored lines."""
    hub: Hub
    """Its subscribers."""
    messenger: Messenger
    """Signals and presence, here and at other daemons."""
    leases: Leases
    """The leases on heads."""
    writer: SessionWriter
    """The single writer of the session."""
    estimates: TokenCounts
    """Token counts of the messages at each head."""
    contexts: ContextCache
    views: ViewCache
    plan_files: PlanFiles
    children: ChildIndex
    caches: CacheBudget

    def end(self, why: SessiondError | None = None) -> None:
        """Serve the session no longer; `why` is for who waits for a lease."""
        self.leases.close(why)
        for cache in (self.contexts, self.views):
            self.caches.forget(cache)
            cache.clear()

    def statistics(self, *, waiting: int) -> HostStatistics:
        """Return the counters, with `waiting` commands in the inbox."""
        return HostStatistics(
            seq=self.opened.session.seq,
            inbox=waiting,
            writer=self.writer.statistics(),
            hub=self.hub.statistics(),
        )


def live(opened: OpenSession, hub: Hub, inbox: Inbox, deps: SessionDeps) -> Live:
    """Serve what was opened, to these subscribers."""
    environment = deps.environment
    rules, find_table = opened.session.rules, deps.lease_table
    leases = (
        Leases(environment, deps.next_lease_epoch, rules)
        if find_table is None
        else SharedLeases(
            environment,
            deps.next_lease_epoch,
            rules,
            partial(find_table, opened),
            deps.lease_threads,
        )
    )
    messenger = Messenger(opened, hub, deps.company)
    return Live(
        opened=opened,
        log=LogReader(opened),
        hub=hub,
        messenger=messenger,
        leases=leases,
        writer=SessionWriter(
            opened, hub, inbox, leases, environment, (deps.files, deps.shared), messenger
        ),
        estimates=TokenCounts(opened, environment.policies),
        contexts=ContextCache(deps.caches),
        views=ViewCache(opened, deps.caches),
        plan_files=PlanFiles(),
        children=ChildIndex(),
        caches=deps.caches,
    )


def new_hub(opened: OpenSession) -> Hub:
    """Make a hub without subscribers."""
    hub = Hub(LogReader(opened), opened.session_id, opened.epoch, opened.session.rules)
    hub.standing.take(archived=opened.archived, read_only=opened.read_only_reason)
    return hub
