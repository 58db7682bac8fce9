"""The commands that add an extra to an installation or mend it: of the program that made it, with what it has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sessiond.installation import adding, mending

PIP = f"{sys.executable} -m pip install"


@pytest.mark.parametrize(
    ("note", "adds", "mends"),
    [
        ("pipx_metadata.json", "pipx install --force", "pipx install --force"),
        ("uv-receipt.toml", "uv tool install --force", "uv tool install --reinstall"),
        ("pyvenv.cfg", PIP, f"{PIP} --force-reinstall --no-deps"),
    ],
)
def test_an_installation_is_changed_by_the_program_that_made_it(
    note: str, adds: str, mends: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pipx and uv leave a note in an environment that they make, in whatever folder it is."""
    (tmp_path / note).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    told = "in the checkout of sessiond run:"
    monkeypatch.setattr("sessiond.installation.find_spec", lambda name: None)
    assert adding("mcp") == f"{told} {adds} '.[mcp]'"
    assert mending() == f"{told} {mends} ."
    # A new environment has no extra but those that are named.
    monkeypatch.setattr("sessiond.installation.find_spec", lambda name: name == "textual" or None)
    assert adding("mcp") == f"{told} {adds} '.[browse,mcp]'"
    assert mending() == f"{told} {mends} '.[browse]'"
