"""The table of contents: complete, honest, and all that help has to import."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

import sessiond.cli.commands
from sessiond.cli import CONTENTS, main
from sessiond.cli.lazy import Listed

pytestmark = pytest.mark.platform

HEAVY = ("rich", "textual", "pygls", "lsprotocol", "sessiond_client", "structlog", "uuid_utils")


def test_every_module_of_commands_is_listed_once() -> None:
    (folder,) = sessiond.cli.commands.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert sorted(listed.module for listed in CONTENTS) == sorted(modules)
    assert len({listed.name for listed in CONTENTS}) == len(CONTENTS)


def test_the_slash_commands_of_other_programs_have_commands() -> None:
    slash = "branch fork rebase merge compact stats export import navigate usage"
    assert set(slash.split()) <= {listed.name for listed in CONTENTS}


@pytest.mark.parametrize("listed", CONTENTS, ids=lambda listed: listed.name)
def test_a_command_is_called_what_the_contents_say(listed: Listed) -> None:
    command = importlib.import_module(f"sessiond.cli.commands.{listed.module}").COMMAND
    assert isinstance(command, click.Command)
    assert command.name == listed.name
    assert command.help
    assert listed.help.endswith(".")


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("from sessiond.cli import main; main(['--help'])", HEAVY),
        (
            "import sessiond.daemon.daemon",
            ("rich.console", "pygls", "lsprotocol", "sessiond.cli.commands.schema"),
        ),
    ],
)
def test_what_does_not_need_it_does_not_import_it(program: str, absent: tuple[str, ...]) -> None:
    watched = f"import sys, atexit; atexit.register(lambda: print(*sys.modules)); {program}"
    done = subprocess.run(
        [sys.executable, "-c", watched], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "sessiond" in imported
    assert not imported & set(absent)


def test_the_shared_options_come_after_a_commands_own() -> None:
    command = importlib.import_module("sessiond.cli.commands.tail").COMMAND
    text = command.get_help(click.Context(command, info_name="tail"))
    own, _, shared = text.partition("Shared options:")
    assert "--follow" in own
    assert "\n  SESSION" not in own
    for flag in ("--json", "--profile", "--socket", "--home", "--no-start"):
        assert flag in shared
        assert flag not in own.partition("Options:")[2]


def test_help_lists_every_command_under_its_section() -> None:
    text = main.get_help(click.Context(main, info_name="sessiond"))
    places = [text.index(f"\n{listed.section}:\n") for listed in CONTENTS]
    assert places == sorted(places)
    for listed in CONTENTS:
        assert listed.help in " ".join(text.split())
