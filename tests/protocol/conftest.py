"""What differs from run to run, and how a transcript shows it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sessiond import __version__
from sessiond.testing.transcripts import Placeholders

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="session")
def recording() -> bool:
    """UPDATE=1: what happens is written down instead of compared."""
    return os.environ.get("UPDATE") == "1"


@pytest.fixture
def placeholders(home: Path) -> Placeholders:
    """`$HOME` is the daemon's, `$FILES` a copy of tests/protocol/files in it."""
    files = shutil.copytree(FILES, home / "files")
    return (
        ("$FILES", str(files)),
        ("$HOME", str(home)),
        ("$SAMPLES", str(SAMPLES)),
        ('"pid":4711', f'"pid":{os.getpid()}'),
        ('"version":"X.Y.Z"', f'"version":"{__version__}"'),
    )
