"""The failure that ends a command, apart from `failures`, which a command that succeeds never needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sessiond.daemon.exit_status import Status

__all__ = ["Failure", "missing_extra"]


class Failure(Exception):
    """Failure that ends a command: what went wrong, what to do next, and the exit status."""

    def __init__(
        self,
        what: str,
        then: str,
        status: Status = Status.FAILED,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.then = then
        self.status = status
        self.facts: Mapping[str, Any] = {} if facts is None else facts
        """Values for programs, beside the texts."""

    def about(self, subject: str) -> Failure:
        """Return the failure with its subject named, for a command on several subjects."""
        if Path(subject).name in self.what:
            return self
        return Failure(f"{subject}: {self.what}", self.then, self.status, self.facts)

    def body(self) -> dict[str, Any]:
        """Return the failure as a JSON value for programs."""
        texts = {"message": self.what, "next": self.then, "status": int(self.status)}
        return {**self.facts, **texts}


def missing_extra(extra: str) -> str:
    """Return the next step for a command whose extra is not installed."""
    return f"in the checkout of sessiond run: pip install '.[{extra}]'"
