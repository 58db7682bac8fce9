"""Structured log lines on standard error, never with message content."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import cast

# structlog takes rich wherever it is installed, to draw tracebacks, which are never logged
# here: 0.1 s and 4 MB of every daemon. None is the import system's "not there".
_modules = cast("dict[str, ModuleType | None]", sys.modules)
_modules.setdefault("rich", None)
try:
    import structlog
finally:
    if _modules["rich"] is None:
        del _modules["rich"]

__all__ = ["configure_log"]


def configure_log() -> None:
    """One line an event: for people on a terminal, JSON otherwise.

    Everything below the command line logs through the standard library, with
    its facts in `extra`; here those become fields of the line.
    """
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
