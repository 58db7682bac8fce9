"""The TypeScript declarations compile strictly, with a small client that uses them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

PROJECT = Path(__file__).with_name("typescript")


def test_the_declarations_and_a_client_of_them_compile(node: Path, node_modules: Path) -> None:
    compiler = node_modules / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [str(node), str(compiler), "--project", str(PROJECT)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
