"""The values that differ from run to run, and their spelling in transcripts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond import __version__
from sessiond.build import BUILD
from sessiond.schema import openrpc_bytes
from sessiond.testing.transcripts import Placeholders

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="session")
def recording() -> bool:
    """UPDATE=1: what happens is written down instead of compared."""
    return os.environ.get("UPDATE") == "1"


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@pytest.fixture
def placeholders(home: Path) -> Placeholders:
    """`$HOME` is the daemon's, `$FILES` a copy of tests/protocol/files in it.

    The long members of the OpenRPC document are shown by their names.
    """
    files = shutil.copytree(FILES, home / "files")
    discovered = json.loads(openrpc_bytes())
    return (
        *(
            (f'"${name}"', json_text(discovered[name]))
            for name in ("methods", "components", "x-notifications", "x-client-requests")
        ),
        ("$FILES", str(files)),
        ("$HOME", str(home)),
        ("$SAMPLES", str(SAMPLES)),
        ('"pid":4711', f'"pid":{os.getpid()}'),
        ('"version":"X.Y.Z"', f'"version":"{__version__}"'),
        ('"build":"0a1b2c3d"', f'"build":"{BUILD}"'),
    )
