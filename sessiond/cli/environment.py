"""The real clock, ids and log behind the service."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

import uuid_utils

from sessiond.service.ports import Environment

__all__ = ["real_environment"]


def real_environment(report_bug: Callable[[str, BaseException], str]) -> Environment:
    """What production runs on."""
    return Environment(
        now=_now,
        monotonic=time.monotonic,
        new_entry_id=_new_entry_id,
        new_session_id=_new_session_id,
        new_epoch=_new_epoch,
        file_stamp=_file_stamp,
        report_bug=report_bug,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _new_entry_id() -> str:
    """8 hex digits; the session checks them against its own."""
    return secrets.token_hex(4)


def _new_session_id() -> str:
    """A UUIDv7, so that ids sort by the time they were made."""
    return str(uuid_utils.uuid7())


def _new_epoch() -> str:
    return secrets.token_hex(8)


def _file_stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
