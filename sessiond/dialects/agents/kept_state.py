"""The state of a reading as bytes, so that a later process reads on behind the lines that this one has read.

Law: the bytes make plain values and objects of the classes of this package, and call nothing else. Bytes that
name anything else are refused, before anything is imported.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, Final

_PROTOCOL: Final = 5
_OWN: Final = "sessiond.dialects.agents."
_OTHERS: Final = frozenset(
    {
        ("array", "_array_reconstructor"),
        ("array", "array"),
        ("collections", "deque"),
        ("msgspec", "Raw"),
        ("msgspec._core", "UNSET"),
        ("sessiond.model.usage", "Usage"),
    }
)


def kept_state(state: object) -> bytes:
    """Return a state as bytes."""
    return pickle.dumps(state, _PROTOCOL)


def state_of(data: bytes) -> Any:
    """Return the state that bytes were made of. Raises ValueError for any other bytes."""
    try:
        return _Reader(BytesIO(data)).load()
    except Exception as error:
        # What damaged bytes raise is anything.
        raise ValueError("these are no state of a reading") from error


class _Reader(pickle.Unpickler):
    """A reader of states, which knows the classes of the readings and plain values."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class of this name. Raises UnpicklingError for what is no part of a state."""
        if (module, name) not in _OTHERS and not module.startswith(_OWN):
            raise pickle.UnpicklingError(f"a state has no {module}.{name}")
        found = super().find_class(module, name)
        is_own = isinstance(found, type) and found.__module__ == module
        if module.startswith(_OWN) and not is_own:
            raise pickle.UnpicklingError(f"{module}.{name} is no class of a reading")
        return found
