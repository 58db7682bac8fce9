"""A client of sessiond, the daemon that owns coding-agent sessions.

    async with sessiond_client.connect(socket_path) as client:
        session = (await client.create(cwd="/my/project")).session
        await client.append(session.id, message={"role": "user", "content": "hi"})

`connect` is for anyio programs, `connect_blocking` for scripts and threads; both have equal
methods. The package imports nothing of sessiond: client and daemon share the wire only.

The names below are imported at their first use: a program that only looks for the
daemon (`sessiond_client.place`) does not wait for anyio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.1"

if TYPE_CHECKING:
    from sessiond_client.exports import *  # noqa: F403 - their public place is here
    from sessiond_client.exports import __all__ as __all__
else:  # a checker would take `__getattr__` for leave to ask for anything
    from sessiond_client.exports import HOMES

    __all__ = [*HOMES, "__version__"]

    def __getattr__(name):
        """Import a name at its first use, and keep it here."""
        from importlib import import_module

        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
        return value
