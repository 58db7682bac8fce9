"""Facts of the protocol that the client decides by: methods, bounds and codes."""

from __future__ import annotations

from typing import Final

from sessiond.errors import TooLarge
from sessiond.limits import FRAME_BYTES_MAX, SUMMARY_BYTES_MAX
from sessiond.methods import METHODS
from sessiond.schema.python.calls import NO_METHOD
from sessiond.schema.python.layout import all_names, braced, header

__all__ = ["aliases", "facts_text", "repeatable"]

# Methods that write only if a parameter says so: the client looks at the parameter.
_SOMETIMES: Final = frozenset({"session/export", "session/repair", "retention/run"})

_HEAD: Final = "Facts of the protocol: methods, bounds and codes."


def aliases() -> dict[str, str]:
    """Return the methods by their short names."""
    return {alias: method.name for method in METHODS for alias in method.aliases}


def repeatable() -> list[str]:
    """Return the methods that need no right to write: to do one twice is to do it once."""
    return sorted(
        method.name
        for method in METHODS
        if method.access != "write" and method.name not in NO_METHOD | _SOMETIMES
    )


def facts_text() -> str:
    """Return the module of the facts."""
    reads = [f'"{name}"' for name in repeatable()]
    renamed = [f'"{alias}": "{name}"' for alias, name in aliases().items()]
    rows = [
        ("ALIASES: Final[dict[str, str]]", braced("", renamed), "Methods by their short names."),
        (
            "READS: Final",
            f"frozenset(\n    {braced('    ', reads)}\n)",
            "Methods that need no right to write: to do one twice is to do it once.",
        ),
        ("REQUEST_BYTES_MAX: Final", str(FRAME_BYTES_MAX), "A longer frame is refused."),
        ("SUMMARY_BYTES_MAX: Final", str(SUMMARY_BYTES_MAX), "A longer summary is refused."),
        ("TOO_LARGE: Final", str(TooLarge.code), "The code of the refusal of a frame."),
    ]
    names = [declared.partition(":")[0] for declared, _, _ in rows]
    body = "".join(f'{declared} = {value}\n"""{told}"""\n' for declared, value, told in rows)
    return "\n".join([header(_HEAD), "from typing import Final\n", all_names(names), body])
