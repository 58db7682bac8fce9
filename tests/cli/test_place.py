"""The folders of the environment and of the command line, and which of them count."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sessiond.cli.commands.sockname import COMMAND


def sockname(*words: str) -> str:
    """Return the output of `sessiond sockname`."""
    answer = CliRunner().invoke(COMMAND, words)
    assert answer.exit_code == 0, answer.output
    return answer.output.strip()


def test_a_relative_home_counts_on_the_command_line_and_not_in_the_environment(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sockname()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIOND_HOME", "data")
    assert sockname() == plain
    assert sockname("--home", "data") == sockname("--home", str(tmp_path / "data")) != plain
    monkeypatch.setenv("SESSIOND_HOME", str(home))
    assert sockname() == sockname("--home", str(home)) != plain
