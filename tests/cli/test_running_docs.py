"""docs/running.md and the units say what is true: keys, defaults, flags, places."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

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
    own = {"reserve_tokens": None, "keep_recent_tokens": None, "tokenizer": None}
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
