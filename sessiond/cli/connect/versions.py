"""Comparison of the daemon with this command, by version and build, and the line that tells a difference."""

from __future__ import annotations

from typing import Final

import click

from sessiond.build import BUILD
from sessiond.cli.ui.output import note
from sessiond_client.versions import difference

_TOLD: Final = "sessiond.another"


def tell_another(version: str, build: str) -> None:
    """Say on standard error, once in a command, that the daemon is of another version or build."""
    context = click.get_current_context(silent=True)
    text = difference(version, build, BUILD)
    if text is not None and (context is None or context.meta.setdefault(_TOLD, text) is text):
        note(text)
