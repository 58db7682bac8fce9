"""Work in the background: `retention/run` every hour, if the configuration sets an age, and the search index.

The daemons of one database take turns: one of those with an equal age runs the retention of an hour. Each daemon makes
its own search index, and erases from it the words of what is gone: a file that its program removed, or wrote anew, tells
no daemon.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

import anyio
from anyio import to_thread

from sessiond.daemon.reload import Tuning
from sessiond.errors import SessiondError, exhausted
from sessiond.limits import CLEAN_UP_SECONDS, INDEX_SECONDS, RETRY_AFTER_MS
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.retention import retain
from sessiond.service.service import Service

_log = logging.getLogger("sessiond")


class _Timer:
    """Asker of the lists that no client waits for."""

    progress = NO_PROGRESS
    result_meta: bytes | None = None


async def keep_retaining(service: Service, tuning: Tuning) -> None:
    """Run retention now, every hour and at every change of the configuration, until cancelled."""
    while True:
        changed = tuning.changed
        hours = tuning.current.retention.max_age_hours
        if not hours:
            await changed.wait()
            continue
        await _retain(service, hours)
        with anyio.move_on_after(CLEAN_UP_SECONDS):
            await changed.wait()


async def keep_index(service: Service) -> None:
    """Keep the search index current, and erase the words of what is gone, until cancelled.

    That is behind the first scan, every half an hour, and where a search or other roots have work for it.
    """
    search = service.search
    await service.live_catalog.complete.wait()
    while True:
        with _reporting(service, "reading sessions for the search index"):
            await search.catch_up(_Timer())
        with _reporting(service, "erasing words from the search index"):
            await search.erase_removed(_Timer())
        with anyio.move_on_after(INDEX_SECONDS):
            await search.is_due.wait()


async def _retain(service: Service, hours: float) -> None:
    claim = service.store.routine(f"retention {hours}", CLEAN_UP_SECONDS)
    with _reporting(service, "retention"):
        try:
            if claim is not None and not await to_thread.run_sync(claim.take):
                return
            done = await retain(service, hours, dry_run=False, asker=_Timer())
        except SessiondError:
            if claim is not None:
                await to_thread.run_sync(claim.end)
            raise
        counts = {"sessions": len(done.sessions), "failed": len(done.failed)}
        _log.info("retention done", extra=counts)


@contextmanager
def _reporting(service: Service, what: str) -> Generator[None]:
    """Log a failure of the block, which must not end the daemon."""
    try:
        yield
    except SessiondError as error:
        _log.warning("%s failed", what, extra={"reason": str(error)})
    except Exception as bug:  # noqa: BLE001 - the next round has its chance
        short = exhausted(bug, RETRY_AFTER_MS)
        if short is None:
            service.environment.report_bug(what, bug)
        else:
            _log.warning("%s failed", what, extra={"reason": str(short)})
