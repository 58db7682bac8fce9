"""Process of a daemon: the resources it takes before serving, and its exit status."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Final

import anyio
from msgspec import structs

from sessiond.config.config_file import BadConfiguration
from sessiond.daemon.daemon import Daemon, DaemonOptions
from sessiond.daemon.exit_status import Status
from sessiond.daemon.process_log import configure_log
from sessiond.daemon.reload import Tuning
from sessiond.daemon.startup import (
    begin_or_refuse,
    listener_at,
    listener_inherited,
    raise_open_files,
    require_descriptors,
    take_profile,
)
from sessiond.errors import SessiondError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.holder import Holder
from sessiond.journal.profile.lock import Held
from sessiond.system import SYSTEM
from sessiond.transports.listening import CannotListen, Listening

# How long a thread may keep the interpreter lock: a large file is opened beside the loop.
_SWITCH_SECONDS: Final = 0.001


def run(options: DaemonOptions) -> int:
    """Serve until told to stop; return the exit status."""
    configure_log()
    log = logging.getLogger("sessiond")
    sys.setswitchinterval(_SWITCH_SECONDS)
    SYSTEM.give_back_large_blocks()
    Thread.start = begin_or_refuse  # type: ignore[method-assign, assignment]
    files = Files()
    try:
        open_files = raise_open_files()
        require_descriptors(files, open_files)
        tuning = Tuning(options.sources, open_files)
        tuning.set_level()
        options, listener = _with_listener(options)
        lock = take_profile(files, options.layout, options.socket)
    except BadConfiguration as error:
        log.error("cannot start", extra={"reason": str(error)})  # noqa: TRY400
        return Status.USAGE
    except Held as held:
        log.error("cannot start", extra={"reason": _who_serves(held.holder)})  # noqa: TRY400
        return Status.FAILED
    except (SessiondError, CannotListen, OSError) as error:
        log.error("cannot start", extra={"reason": str(error)})  # noqa: TRY400
        return Status.FAILED
    status = Status.DONE
    try:
        anyio.run(Daemon(options, tuning, files, listener, lock).serve)
    except* BadConfiguration as errors:
        log.error("cannot start", extra={"reason": _first(errors)})  # noqa: TRY400
        status = Status.USAGE
    except* (SessiondError, CannotListen, OSError) as errors:
        log.error("cannot serve", extra={"reason": _first(errors)})  # noqa: TRY400
        status = Status.FAILED
    finally:
        # Held until the very end: a process that waits for the lock knows that this one is gone.
        lock.leave()
    return status


def _with_listener(
    options: DaemonOptions,
) -> tuple[DaemonOptions, Callable[[], Listening] | None]:
    """Return the options with the socket's path, and the function that listens on it."""
    inherited = listener_inherited(os.environ)
    if inherited is not None:
        return structs.replace(options, socket=inherited.path), lambda: inherited
    return options, None if options.socket is None else listener_at(options.socket)


def _who_serves(holder: Holder | None) -> str:
    return f"{holder or 'another daemon'} serves this profile"


def _first(errors: BaseExceptionGroup[Exception]) -> str:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else str(error)
