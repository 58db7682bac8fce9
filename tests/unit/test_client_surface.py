"""The Python client's public names, parameters, defaults and result fields stay what they are."""

from __future__ import annotations

import os
from pathlib import Path

from tests.unit.client_surface import surface

PINNED = Path(__file__).with_name("client_surface.txt")


def test_the_public_surface_of_the_client_is_the_pinned_one() -> None:
    today = surface()
    if os.environ.get("UPDATE") == "1":
        PINNED.write_text("\n".join(today) + "\n")
    pinned = PINNED.read_text().splitlines()
    gone = sorted(set(pinned) - set(today))
    new = sorted(set(today) - set(pinned))
    assert not gone, f"programs may use what is gone or changed: {gone}"
    assert not new, f"to pin what is new: UPDATE=1 .venv/bin/pytest {__file__}: {new}"
