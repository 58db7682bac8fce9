"""Retention in the background: `retention/run` every hour, if the configuration sets an age.

The daemons of one database take turns: one of those with an equal age runs the retention of an hour.
"""

from __future__ import annotations

import logging

import anyio
from anyio import to_thread

from sessiond.daemon.reload import Tuning
from sessiond.errors import SessiondError, exhausted
from sessiond.limits import CLEAN_UP_SECONDS, RETRY_AFTER_MS
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.retention import retain
from sessiond.service.service import Service

__all__ = ["keep_retaining"]

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


async def _retain(service: Service, hours: float) -> None:
    claim = service.store.routine(f"retention {hours}", CLEAN_UP_SECONDS)
    try:
        if claim is not None and not await to_thread.run_sync(claim.take):
            return
        done = await retain(service, hours, dry_run=False, asker=_Timer())
    except SessiondError as error:
        _log.warning("retention failed", extra={"reason": str(error)})
        if claim is not None:
            await to_thread.run_sync(claim.end)
    except Exception as bug:  # noqa: BLE001 - failed retention must not end the daemon
        short = exhausted(bug, RETRY_AFTER_MS)
        if short is None:
            service.environment.report_bug("retention", bug)
        else:
            _log.warning("retention failed", extra={"reason": str(short)})
    else:
        counts = {"sessions": len(done.sessions), "failed": len(done.failed)}
        _log.info("retention done", extra=counts)
