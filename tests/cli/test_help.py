"""The help of commands: each option explained, one word for one kind of value, SESSION said once."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Final

import click
import pytest

from sessiond.cli import CONTENTS, main
from sessiond.cli.arguments import TEXT

PAGES: Final = Path(__file__).resolve().parents[2] / "docs"
COMMANDS: Final = {
    listed.name: importlib.import_module(f"sessiond.cli.commands.{listed.module}").COMMAND
    for listed in CONTENTS
}
# Commands that take no part of a title: tests/processes/test_whole_titles.py runs each.
WHOLE: Final = {"archive", "unarchive", "delete", "forget", "rename", "repair"}


def own_options(name: str) -> list[click.Option]:
    return [one for one in COMMANDS[name].params if isinstance(one, click.Option)]


def words_of(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_has_a_text(name: str) -> None:
    context = click.Context(COMMANDS[name], info_name=name)
    for option in own_options(name):
        record = option.get_help_record(context)
        assert option.hidden or (record is not None and re.match(r"[^\[\s]", record[1])), (
            option.opts
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_text_in_a_help_is_a_text_that_may_come_from_a_file(name: str) -> None:
    context = click.Context(COMMANDS[name], info_name=name)
    for option in own_options(name):
        is_text = option.make_metavar(context) == "TEXT"
        assert is_text is (option.type is TEXT), option.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_may_be_repeated_says_so(name: str) -> None:
    context = click.Context(COMMANDS[name], info_name=name)
    said = words_of(COMMANDS[name].get_help(context)).count("[may be repeated]")
    assert said == sum(option.multiple for option in own_options(name))


def test_the_help_and_the_page_read_session_in_one_order() -> None:
    text = words_of(main.get_help(click.Context(main, info_name="sessiond")))
    page = words_of((PAGES / "commands.md").read_text("utf-8")).replace("`", "")
    (said,) = re.findall(r"SESSION is (.*? whole ids only)\.", text)
    (shown,) = re.findall(r"SESSION is (.*? whole ids only)\.", page)
    assert shown == said
    (named,) = re.findall(r"title\. ([a-z, ]+) take no part of a title", said)
    assert set(re.split(r", | and ", named)) == WHOLE


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_command_that_takes_no_part_of_a_title_says_so(name: str) -> None:
    assert "title names no session here" in words_of(COMMANDS[name].help or "")


@pytest.mark.parametrize("page", ["browse.md", "mcp.md"])
def test_the_statuses_and_options_that_a_page_names_are_in_the_help(page: str) -> None:
    command = COMMANDS[page.removesuffix(".md")]
    text = words_of(command.get_help(click.Context(command, info_name="x")))
    said = (PAGES / page).read_text("utf-8")
    for flag in re.findall(r"`(--[a-z-]+)`", said):
        assert flag in text
    statuses = re.findall(r"^.*Exit status: (.*)$", said, re.MULTILINE)
    for status in re.findall(r"\b\d\b", " ".join(statuses)):
        assert f"{status} " in text.partition("Exit status:")[2]


def test_the_readme_lists_the_extras_and_no_page_names_them_in_a_registry() -> None:
    root = PAGES.parent
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    rows = re.findall(r"^\| `([a-z-]+)` \|", (root / "README.md").read_text("utf-8"), re.MULTILINE)
    assert set(rows) == set(project["optional-dependencies"])
    for page in (root / "README.md", root / "CHANGELOG.md", *PAGES.glob("*.md")):
        assert not re.search(r"pip install '?sessiond", page.read_text("utf-8")), page
