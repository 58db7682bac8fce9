"""Structured log lines on standard error, never with message content.

A line for a program is JSON with structlog's fields, made here: importing structlog would cost a
background daemon as much as its whole service.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Final, cast

import msgspec

# Attributes of every record; further attributes are the facts given as `extra`.
_USUAL: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def configure_log() -> None:
    """Log one line per event: for people on a terminal, JSON otherwise.

    Everything below the command line logs through the standard library, with facts in `extra`; the
    facts become fields of the line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_for_people() if sys.stderr.isatty() else _JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class _JsonLines(logging.Formatter):
    """Formatter of `{"event": …, "level": …, facts …, "timestamp": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"event": record.getMessage(), "level": record.levelname.lower()}
        line |= {name: fact for name, fact in record.__dict__.items() if name not in _USUAL}
        if record.exc_info and record.exc_info[0] is not None:
            # The text of an exception may quote a client's content, so only its type is logged.
            line["exception"] = record.exc_info[0].__name__
        made = datetime.fromtimestamp(record.created, UTC)
        line["timestamp"] = made.isoformat().replace("+00:00", "Z")
        return msgspec.json.encode(line, enc_hook=str).decode()


def _for_people() -> logging.Formatter:
    # structlog imports rich if it is installed, to draw tracebacks, which are never logged here:
    # 0.1 s and 4 MB. None makes the import system treat rich as missing.
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    modules.setdefault("rich", None)
    try:
        import structlog
    finally:
        if modules["rich"] is None:
            del modules["rich"]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer(),
        ],
    )
