"""docs/running.md and the units say what is true: keys, defaults, flags, places."""

from __future__ import annotations

import configparser
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from sessiond import limits
from sessiond.cli import CONTENTS, main
from sessiond.config.configuration import Configuration, Sources, load

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "running.md").read_text("utf-8")


def test_the_example_of_the_configuration_is_every_key_with_its_default(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "config.toml"
    path.write_text(text, "utf-8")
    read, settings = load(Sources({}, str(path)))
    assert all(setting.source == str(path) for setting in settings)
    # These have a default that depends on others.
    own = dict.fromkeys(("preset", "reserve_tokens", "keep_recent_tokens", "tokenizer"))
    compaction = structs.replace(read.compaction, **own)
    summarizer = structs.replace(read.summarizer, command=())
    secrets = structs.replace(read.secrets, key_file=None)
    defaults = structs.replace(read.defaults, model=None)
    places = structs.replace(read, socket=None, store=None, secrets=secrets, defaults=defaults)
    shown = structs.replace(
        places, idle_exit_seconds=0.0, compaction=compaction, summarizer=summarizer
    )
    assert shown == Configuration()
    assert tomllib.loads(text)["idle_exit_seconds"] == 1800


def test_commands_on_the_page_exist() -> None:
    names = {listed.name for listed in CONTENTS}
    said = set(
        re.findall(r"sessiond (start|status|stop|restart|profiles|serve|config|\w+name)", PAGE)
    )
    assert said <= names
    assert len(said) == 8


@pytest.mark.parametrize("name", ["sessiond.socket", "sessiond.service"])
def test_a_unit_is_linked_and_can_be_read(name: str) -> None:
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DOCS / "systemd" / name).read_text("utf-8"))
    assert f"](systemd/{name})" in PAGE
    assert unit.sections()[0] == "Unit"
    if name == "sessiond.service":
        program, *arguments = unit["Service"]["ExecStart"].split()
        assert program.endswith("/sessiond")
        with main.make_context("sessiond", arguments, resilient_parsing=True) as context:
            command, _, rest = main.resolve_command(context, arguments)
        assert (command, rest) == ("serve", [])
        assert "SESSIOND_IDLE_EXIT_SECONDS=" in unit["Service"]["Environment"]
    else:
        assert unit["Socket"]["ListenStream"] == "%t/sessiond/default.sock"
        assert unit["Socket"]["SocketMode"] == "0600"


def test_the_figures_of_a_database_are_those_of_the_daemon() -> None:
    whole = limits.DATABASE_STATEMENT_SECONDS + limits.DATABASE_ANSWER_SECONDS
    waits = whole + limits.DATABASE_LOCK_SECONDS
    assert f"fail after about {whole:g} seconds, or {waits:g} if" in PAGE
    assert 5 < limits.DATABASE_LOOK_SECONDS + limits.DATABASE_AWAY_SECONDS < 6
    assert "delays a read of an open session\n  by 6," in PAGE
    assert f"up to {limits.DATABASE_CONNECTIONS_MAX} connections to the database" in PAGE
    assert limits.DATABASE_APPENDS_MAX == 8
    assert "appends use eight at most" in PAGE
    # One more listens.
    own = limits.DATABASE_CONNECTIONS_MAX + 1
    scale = (DOCS / "scale.md").read_text("utf-8")
    assert f"Each daemon keeps up to {own} connections." in scale
    assert (100 - 3) // own == 5
    assert "five daemons fit" in scale


def test_the_units_of_another_profile_serve_it(tmp_path: Path) -> None:
    lines = re.findall(r"^    (sed .*)$", PAGE, re.MULTILINE)
    folder = tmp_path / "units"
    folder.mkdir()
    for unit in (DOCS / "systemd").iterdir():
        (folder / unit.name).write_bytes(unit.read_bytes())
    for line in lines:
        subprocess.run(["sh", "-c", line], cwd=folder, check=True)
    service = (folder / "sessiond-work.service").read_text("utf-8")
    socket = (folder / "sessiond-work.socket").read_text("utf-8")
    assert "ExecStart=%h/.local/bin/sessiond serve --profile work\n" in service
    for key in ("Requires", "After", "Also"):
        assert f"{key}=sessiond-work.socket\n" in service
    assert "ListenStream=%t/sessiond/work.sock\n" in socket
