"""A person who gives the wrong file or the folder above is told which one is right."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.cli.offline.found_files import found_files
from tests.kit.agents import CHATS, CODEX, SAMPLES, claude_line, write_lines
from tests.kit.house import House

SESSION = "5e550000-0000-4000-8000-000000000001"
LINE = json.dumps(claude_line(1, None, "hi")).encode() + b"\n"


def zipped(data: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("session.jsonl", data * 9)
    return content.getvalue()


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (lambda data: data.decode().encode("utf-16"), "iconv -f UTF-16"),
        (lambda data: data.decode().encode("utf-16-be"), ""),
        (lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"), "iconv -f UTF-16"),
        (gzip.compress, "gunzip"),
        (bz2.compress, "bunzip2"),
        (lzma.compress, "unxz"),
        (zipped, "unzip"),
    ],
)
async def test_a_file_in_another_wrapping_names_what_unwraps_it(
    real_house: House, tmp_path: Path, packed: Callable[[bytes], bytes], words: str
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(packed(LINE))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/import", path=str(path))
        assert refused.data["kind"] == "session_corrupt"
        assert words in str(refused)


@pytest.mark.parametrize(
    ("above", "right", "kind"),
    [
        (".claude", ".claude/projects", "claude-code"),
        (".", ".claude/projects", "claude-code"),
        (".codex", ".codex/sessions", "codex"),
        (".gemini", ".gemini/tmp", "gemini-cli"),
    ],
)
async def test_the_folder_above_names_the_folder_to_add(
    real_house: House, tmp_path: Path, above: str, right: str, kind: str
) -> None:
    claude = tmp_path / ".claude" / "projects" / "-p"
    claude.mkdir(parents=True)
    write_lines(claude / f"{SESSION}.jsonl", [claude_line(1, None, "hi")])
    shutil.copytree(CODEX, tmp_path / ".codex" / "sessions" / "2026" / "11" / "02")
    shutil.copytree(CHATS, tmp_path / ".gemini" / "tmp" / "notes" / "chats")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        given = str(tmp_path / above) if above != "." else str(tmp_path)
        refused = await wire.refusal("catalog/roots", action="add", path=given)
        assert f"add {tmp_path / right}, which has sessions of {kind}" in str(refused)
        missing = await wire.refusal("catalog/roots", action="add", path=str(tmp_path / "none"))
        assert f"{tmp_path / 'none'} cannot be listed: No such file" in str(missing)


def test_files_that_programs_keep_beside_sessions_are_none(tmp_path: Path) -> None:
    for name in ("history.jsonl", "session_index.jsonl", "a.jsonl"):
        (tmp_path / name).write_bytes(b"{}\n")
    shutil.copy(SAMPLES / "claude-branch-compact.jsonl", tmp_path / "b.jsonl")
    names = [Path(one.name).name for one in found_files([str(tmp_path)])]
    assert names == ["a.jsonl", "b.jsonl"]
