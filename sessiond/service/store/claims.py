"""Claims: the right of one daemon to do a piece of work that all daemons of a store could do.

A claim saves work and decides nothing: what the work stores is checked like every other change.
"""

from __future__ import annotations

from typing import Protocol


class Claim(Protocol):
    """The right of one daemon to do one piece of work. Blocking."""

    def take(self) -> bool:
        """Take the claim, or extend the claim; False while another daemon has it.

        A claim lasts for its time from here: CLAIM_SECONDS, or the pause of a routine. Raises StorageError.
        """
        ...

    def end(self) -> None:
        """Let other daemons have the claim; after a failure they get it with its time."""
        ...
