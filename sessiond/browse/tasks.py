"""Tasks of the application and of its screens."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker

Work = Callable[[], Coroutine[Any, Any, None]]


def begin(owner: DOMNode, work: Work, *, alone: bool = False) -> Worker[None]:
    """Begin work as a task that ends with its owner; with `alone` the owner's earlier tasks end."""
    # Not a coroutine: one that is cancelled before its first step would never be awaited.
    worker: Worker[None] = owner.run_worker(work, exclusive=alone)
    return worker
