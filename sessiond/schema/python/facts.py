"""Facts of the protocol that the client decides by: methods, bounds and codes."""

from __future__ import annotations

from typing import Final

from sessiond import __version__
from sessiond.errors import TooLarge
from sessiond.limits import FRAME_BYTES_MAX, SUMMARY_BYTES_MAX
from sessiond.methods import METHODS
from sessiond.schema.python.calls import NO_METHOD
from sessiond.schema.python.layout import all_names, braced, header
from sessiond.schema.repeats import REPEATS, RepeatKind

_HEAD: Final = "Facts of the protocol: methods, bounds and codes."


def aliases() -> dict[str, str]:
    """Return the methods by their short names."""
    return {alias: method.name for method in METHODS for alias in method.aliases}


def repeatable() -> list[str]:
    """Return the methods that change nothing: to do one twice is to do it once."""
    return sorted(
        method.name
        for method in METHODS
        if method.name not in NO_METHOD and method.name not in REPEATS
    )


def repeated(kind: RepeatKind) -> list[str]:
    """Return the mutations of a kind."""
    return sorted(name for name, one in REPEATS.items() if one.kind == kind)


def checks() -> dict[str, str]:
    """Return the calls that show what mutations change, by the mutations."""
    return {name: one.check for name, one in sorted(REPEATS.items()) if one.check is not None}


def facts_text() -> str:
    """Return the module of the facts."""
    rows = [
        (
            "ALIASES: Final[dict[str, str]]",
            braced("", _pairs(aliases())),
            "Methods by their short names.",
        ),
        (
            "CHECKS: Final[dict[str, str]]",
            braced("", _pairs(checks())),
            "The calls that show what mutations change, by the mutations.",
        ),
        (
            "KEYED: Final",
            _set(repeated("keyed")),
            "Mutations that entry ids or an idempotency_key name: such a one is done once.",
        ),
        (
            "READS: Final",
            _set(repeatable()),
            "Methods that change nothing: to do one twice is to do it once.",
        ),
        ("REQUEST_BYTES_MAX: Final", str(FRAME_BYTES_MAX), "A longer frame is refused."),
        (
            "SAFE: Final",
            _set(repeated("safe")),
            "Mutations that are done once if they are done twice.",
        ),
        ("SUMMARY_BYTES_MAX: Final", str(SUMMARY_BYTES_MAX), "A longer summary is refused."),
        ("TOO_LARGE: Final", str(TooLarge.code), "The code of the refusal of a frame."),
        (
            "VERSION: Final",
            f'"{__version__}"',
            "Version of the daemon whose protocol this client has.",
        ),
    ]
    names = [declared.partition(":")[0] for declared, _, _ in rows]
    body = "".join(f'{declared} = {value}\n"""{told}"""\n' for declared, value, told in rows)
    return "\n".join([header(_HEAD), "from typing import Final\n", all_names(names), body])


def _pairs(texts: dict[str, str]) -> list[str]:
    return [f'"{name}": "{value}"' for name, value in texts.items()]


def _set(names: list[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"frozenset(\n    {braced('    ', quoted)}\n)"
