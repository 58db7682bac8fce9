"""Disposal of large objects by a thread.

Law: the event loop frees nothing that grows with a text. Freeing the lines of a text of 50 MB takes
about as long as a step of the event loop may.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import Any


def free_in_thread(outdated: list[Any]) -> None:
    """Empty a list in a thread, which frees each object that only the list holds.

    Where no thread can be started, the caller's thread frees the objects.
    """
    with suppress(RuntimeError):
        Thread(target=outdated.clear, name="disposal").start()
