"""`make demo` shows what it promises and says by its exit code whether that was so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DEMO = Path(__file__).resolve().parents[1] / "demo" / "demo.py"
PLACES = ["on disk", "on the branch", "in the context", "seen by the live subscriber"]


def demo(fixtures: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SESSIOND_FIXTURES": str(fixtures), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def rows_of(output: str) -> dict[str, list[str]]:
    """The table: messages, lost, twice, in order, for each place."""
    cells = [[cell.strip() for cell in line.split("│")] for line in output.splitlines()]
    return {row[1]: row[2:6] for row in cells if len(row) == 7}


@pytest.mark.timeout(120)
def test_the_demo_on_the_sample_in_the_repository(tmp_path: Path) -> None:
    done = demo(tmp_path / "nothing here", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "imported pi.jsonl" in done.stdout
    rows = rows_of(done.stdout)
    for place in PLACES:
        assert rows[place] == ["800", "0", "0", "yes"]
    (resumed,) = [rows[place] for place in rows if "resumed" in place]
    assert resumed == ["800", "0", "0", "yes"]
    assert "all equal: nothing lost, nothing twice" in done.stdout
    assert "[before the experiment]" in done.stdout


@pytest.mark.timeout(120)
def test_the_demo_on_a_real_recording(shared: Path, tmp_path: Path) -> None:
    done = demo(shared, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "imported before-compaction.jsonl: a context of 446 messages" in done.stdout
