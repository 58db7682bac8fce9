"""Every generated file of a client, by its path in the checkout. No daemon imports this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sessiond.schema import python, typescript_client

CLIENTS: Final[dict[str, Callable[[], str]]] = {
    f"{client.FOLDER}/{name}": text
    for client in (python, typescript_client)
    for name, text in client.FILES.items()
}
"""Function that returns the text of each file, identical in every run."""
