"""The command that a client runs if no daemon listens."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from sessiond_client.reach import start_command

pytestmark = pytest.mark.platform

NOTHING_NAMED = {"socket": None, "profile": None, "home": None}


def test_the_command_of_the_environment_is_split_as_a_shell_does() -> None:
    command = start_command({"SESSIOND_COMMAND": "env 'A=b c' sessiond"}, **NOTHING_NAMED)
    assert command == ["env", "A=b c", "sessiond", "start", "--json"]


def test_what_the_caller_named_is_passed_on() -> None:
    command = start_command(
        {"SESSIOND_COMMAND": "x"}, socket=Path("/run/s"), profile="p", home="/data"
    )
    told = ["--socket", "/run/s", "--profile", "p", "--home", "/data"]
    assert command == ["x", "start", "--json", *told]


def test_the_sessiond_beside_the_client_comes_before_the_one_on_the_path() -> None:
    command = start_command({"PATH": ""}, **NOTHING_NAMED)
    assert command == [sys.executable, "-P", "-m", "sessiond", "start", "--json"]


def test_without_one_beside_it_the_path_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program = tmp_path / "sessiond"
    program.touch(mode=0o755)
    command = start_command({"PATH": str(tmp_path)}, **NOTHING_NAMED)
    assert command == [str(program), "start", "--json"]
    with pytest.raises(FileNotFoundError, match="SESSIOND_COMMAND"):
        start_command({"PATH": ""}, **NOTHING_NAMED)
