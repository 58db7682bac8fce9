"""The result of a call whose answer comes later.

Law: the code that finishes the work of a deferred call settles the call, exactly once.
"""

from __future__ import annotations

from typing import Any, Final

DEFERRED: Final[Any] = object()
"""Stands for the answer of a handler, a command or a job that has passed its call on."""
