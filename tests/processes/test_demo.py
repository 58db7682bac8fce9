"""`make demo`: its tables, and its exit code, which says whether sessiond kept its promise."""

from __future__ import annotations

import importlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.search]

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "tests" / "demo" / "demo.py"
WITHOUT = {"in the file": ["800", "0"], "seen by the model": ["200", "600"]}
KEPT = ["800", "0", "0", "yes"]
PLACES = [
    "in the file",
    "on the branch",
    "seen by the model",
    "seen by a program that watches",
    "seen by one that left and came back",
]
Rows = dict[str, list[str]]


def demo(fixtures: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SESSIOND_FIXTURES": str(fixtures), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, str(DEMO), *options],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def tables_of(output: str) -> tuple[Rows, Rows]:
    """Return the rows of both tables, without and with sessiond, by their first column."""
    without, _, with_it = output.partition("With sessiond:")
    assert without.index("Without an owner:") > 0
    return rows_of(without), rows_of(with_it)


def rows_of(text: str) -> Rows:
    found = re.findall(r"^  (\S.*?) {2,}(\d+ .*?) *$", text, re.MULTILINE)
    return {where: figures.split() for where, figures in found}


def same(output: str) -> list[str]:
    """Return the lines without values that differ between runs: times, and sizes of contexts."""
    text = re.sub(r"\d+\.\d s", "N s", output)
    text = re.sub(
        r"(?<=^Context )(.*)$", lambda rest: re.sub(r"\d+", "N", rest[0]), text, flags=re.MULTILINE
    )
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_demo_on_the_sample_in_the_repository(tmp_path: Path) -> None:
    done = demo(tmp_path / "nothing here", tmp_path, "--tree")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A session with a context of 7 messages, from pi.jsonl.\n")
    without, with_it = tables_of(done.stdout)
    assert without == WITHOUT
    assert with_it == dict.fromkeys(PLACES, KEPT)
    assert done.stdout.rstrip().endswith("sessiond: nothing lost, nothing twice")
    assert "[before the experiment]" in done.stdout
    assert "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_readme_shows_the_demo_as_it_is_printed(tmp_path: Path) -> None:
    page = (REPOSITORY / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"^```text\n\$ make demo\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    done = demo(tmp_path / "nothing here", tmp_path)
    assert done.returncode == 0, done.stderr
    assert same(shown) == same(done.stdout)
    assert tables_of(shown) == tables_of(done.stdout)


def test_the_demo_on_a_real_recording(shared: Path, tmp_path: Path) -> None:
    done = demo(shared, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a context of 446 messages, from before-compaction.jsonl" in done.stdout
    without, with_it = tables_of(done.stdout)
    assert without == WITHOUT
    assert with_it == dict.fromkeys(PLACES, KEPT)


def test_colours_are_for_terminals(module: ModuleType, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment = {name: text for name, text in environment.items() if name != "NO_COLOR"}
    code = "import demo; demo.console.print('[green]kept[/green]')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=DEMO.parent, env=environment, stdout=theirs
    )
    os.close(theirs)
    assert b"\x1b[32mkept" in os.read(ours, 1000)
    os.close(ours)
    assert process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the demo's module, so that tests can call parts of it."""
    monkeypatch.syspath_prepend(str(DEMO.parent))
    return importlib.import_module("demo")


@pytest.mark.parametrize("fault", ["none", "lost", "twice", "order"])
def test_the_figures_find_every_fault(
    module: ModuleType, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    order = sorted(module.expected())
    seen = {
        "none": order,
        "lost": order[:-1],
        "twice": [*order, order[-1]],
        "order": [order[1], order[0], *order[2:]],
    }[fault]
    good = module.compare([("in the file", order), ("seen by the model", seen)], order)
    assert good is (fault == "none")
    assert ("NO" in capsys.readouterr().out) is (fault != "none")


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_exit_code_says_whether_sessiond_kept_all(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    monkeypatch.setattr(module, "share", lambda *_: is_kept)
    monkeypatch.setattr(module, "alone", lambda *_: None)
    monkeypatch.setattr(module, "branch_and_compact", lambda *_: None)
    assert module.main(with_tree=False) == (0 if is_kept else 1)


def test_what_the_model_sees_without_an_owner_is_what_sessiond_reads_from_that_file(
    daemon: Daemon, tmp_path: Path, module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo's own way to read the file is no worse than ours."""
    path = tmp_path / "alone.jsonl"
    header = {"type": "session_header", "version": 1, "id": "alone-session", "cwd": "/p"}
    header["timestamp"] = "2026-01-15T10:30:00.000Z"
    path.write_text(json.dumps(header) + "\n", "utf-8")
    module.alone(path)
    assert rows_of(capsys.readouterr().out) == WITHOUT
    with daemon.connect() as link:
        session_id = link.ask("session/import", path=str(path))["session"]["id"]
        context: dict[str, Any] = link.ask("session/build_context", session_id=session_id)
    texts = [message["content"] for message in context["messages"]]
    assert len(texts) == 200
    assert len({text.split(",")[0] for text in texts}) == 1, "all of one program"
