"""Views that an editor has of every sample and of a recording, against golden files.

To write the golden files again: UPDATE=1 .venv/bin/pytest tests/interop/lsp/test_golden.py
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.interop.lsp.editor import SAMPLES, editor
from tests.interop.lsp.golden import UPDATE, facts_seen, seen, settle
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

GOLDEN = Path(__file__).with_name("golden")
AGENTS = SAMPLES.with_name("other_agents")
FOLDERS = sorted(path for path in SAMPLES.iterdir() if path.is_dir())


def samples(folder: Path) -> list[Path]:
    """Return the files below a folder that an editor may be asked to show."""
    found = (path for path in folder.rglob("*") if path.suffix in {".jsonl", ".json"})
    return sorted(path for path in found if path.name != "expected.json")


def golden_name(folder: Path, sample: Path) -> str:
    return f"{folder.name.replace('_', '-')}-{sample.stem}"


def agree(name: str, shown: str) -> None:
    """Require that a golden file tells what was seen, or have it tell."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8"), f"an editor sees {name} otherwise: {UPDATE}"


@pytest.mark.parametrize("folder", [*FOLDERS, AGENTS], ids=lambda path: path.name)
async def test_a_sample_is_seen_as_ever(server: Daemon, home: Path, folder: Path) -> None:
    copied = shutil.copytree(folder, home / folder.name)
    async with editor(server) as client:
        for sample in samples(copied):
            agree(golden_name(folder, sample), await seen(client, settle(sample)))


async def test_a_recording_is_seen_as_ever(server: Daemon, home: Path, shared: Path) -> None:
    recording = shared / "fixtures" / "before-compaction.jsonl"
    async with editor(server) as client:
        copy = settle(Path(shutil.copyfile(recording, home / recording.name)))
        agree(f"recording-{recording.stem}", await facts_seen(client, copy))


def test_every_golden_file_has_its_sample() -> None:
    named = {
        golden_name(folder, sample) for folder in (*FOLDERS, AGENTS) for sample in samples(folder)
    }
    assert {path.stem for path in GOLDEN.iterdir()} == {*named, "recording-before-compaction"}
