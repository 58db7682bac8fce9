"""Limits of sessiond that a test makes smaller, by their names and not by where they are used."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType

import pytest

from sessiond import limits

__all__ = ["set_limits"]

_PACKAGES = ("sessiond.", "sessiond_client.")


def set_limits(patch: pytest.MonkeyPatch, **values: float | None) -> None:
    """Set limits in every loaded module that uses them, so that a test survives a move of modules.

    A name that no module uses fails the test: the test would prove nothing.
    """
    for name, value in values.items():
        users = _users(name, len(sys.modules))
        assert users, f"no module uses {name}"
        for module in users:
            patch.setattr(module, name, value)


@cache
def _users(name: str, _loaded_count: int) -> list[ModuleType]:
    """Return the modules that use a limit; the number of loaded modules makes an old answer stale.

    Each test of the service asks, and there are more than a thousand modules.
    """
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith(_PACKAGES) and module is not limits and name in vars(module)
    ]
