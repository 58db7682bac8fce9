"""Lists of the sessions of several agents, as people and programs see them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessiond.cli.ui.text import cells
from tests.kit.agent_roots import CLAUDE, claude_root, codex_root, gemini_root
from tests.kit.patience import soon
from tests.kit.roots import pi_file, put
from tests.processes.harness.shell import Shell, user_shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

TASK = "agent-a1b2c3d4e5f6a7b8c"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Make a user's shell with sessions of four programs, for tests that change none of them."""
    folder = tmp_path_factory.mktemp("everything")
    with shell_with_everything(folder / "home", folder / "agents") as shell:
        yield shell


@contextmanager
def shell_with_everything(home: Path, agents: Path) -> Iterator[Shell]:
    """Make a user's shell with sessions of four programs, and one of sessiond's own."""
    theirs = pi_file("019a1b2c-3d4e-7f00-8b6f-00000000abcd", "at midnight?", "It stops.")
    roots = [claude_root(agents), codex_root(agents), gemini_root(agents)]
    roots.append(put(agents / "pi", "x_theirs", theirs).parent)
    home.mkdir()
    with user_shell(home) as shell:
        shell.begin()
        for root in roots:
            shell.run(f"sessiond roots add {root}")
        yield shell


def test_a_list_shows_which_program_is_busy(everything: Shell) -> None:
    # The folder in which Claude Code registers its processes.
    registry = Path(everything.environment["HOME"]).with_name("agents") / "claude" / "sessions"
    registry.mkdir()
    registered = registry / f"{os.getpid()}.json"
    about = {"pid": os.getpid(), "sessionId": CLAUDE.format(1), "status": "busy"}
    registered.write_text(json.dumps(about), "utf-8")
    # What the list of another test found in the registry is kept for a moment.
    listed = soon(
        lambda: [
            one["id"]
            for one in everything.json("sessiond list --json")["sessions"]
            if one.get("running") == "busy"
        ]
    )
    assert listed == [CLAUDE.format(1)]
    assert on_a_terminal(everything, 80, "list", lines=200).count("busy") == 1
    drawn = on_a_terminal(everything, 160, "list", lines=200)
    (row,) = [line for line in drawn.splitlines() if "busy" in line]
    assert "Add ping command" in row
    piped = everything.run("sessiond list").stdout
    assert "busy" not in piped, "programs find it in --json"


@pytest.mark.parametrize("columns", [80, 160])
def test_a_list_in_groups_has_a_block_for_each_agent(everything: Shell, columns: int) -> None:
    drawn = on_a_terminal(everything, columns, "list", "--group", "agent", lines=200).splitlines()
    assert all(cells(line) <= columns for line in drawn)
    blocks = re.findall(r"^([a-z-]+): (\d+ sessions?)$", "\n".join(drawn), re.MULTILINE)
    assert blocks == [
        ("native", "1 session"),
        ("gemini-cli", "2 sessions"),
        ("codex", "4 sessions"),
        ("claude-code", "3 sessions"),
        ("pi", "1 session"),
    ]
    claude = drawn[drawn.index("claude-code: 3 sessions") : drawn.index("pi: 1 session")]
    for title in ("Add ping command", "two files", "what is 2+2"):
        assert sum(title in line for line in claude) == sum(title in line for line in drawn) == 1
    # A page does not tell how many there are.
    part = on_a_terminal(everything, columns, "list", "--group", "agent", "-n", "2")
    assert "gemini-cli: 1+ sessions" in part


def test_groups_are_for_people(everything: Shell) -> None:
    piped = everything.run("sessiond list --group agent").stdout.splitlines()
    plain = everything.run("sessiond list").stdout.splitlines()
    assert sorted(piped) == sorted(plain)
    assert len(piped) == 11
    grouped = everything.run("sessiond list --group agent --json").stdout
    assert grouped == everything.run("sessiond list --json").stdout


def test_the_roots_say_how_much_of_each_is_indexed(tmp_path: Path) -> None:
    with shell_with_everything(tmp_path / "home", tmp_path / "agents") as shell:
        assert shell.run("sessiond search ping").stdout
        after = [line.split("\t") for line in shell.run("sessiond roots").stdout.splitlines()]
        listed = shell.json("sessiond roots --json")["roots"]
    assert [row[4] for row in after] == [str(one["indexed_chars"]) for one in listed]
    assert all(one["indexed_chars"] > 0 for one in listed)


def test_the_session_of_a_subagent_is_searched_if_asked_for(everything: Shell) -> None:
    assert TASK not in everything.run("sessiond search main.rs").stdout
    assert TASK in everything.run("sessiond search --subagents main.rs").stdout


def test_a_call_and_its_output_are_found_and_filters_say_where(everything: Shell) -> None:
    output = everything.run("sessiond search main.rs --role tool").stdout
    assert output.splitlines()[-1].split("\t")[-1] == "[Bash] main.rs"
    arguments = (
        "sessiond search 'List files' --tool bash --project /home/ann/ping --since 2020-01-01"
    )
    (hit,) = everything.json(f"{arguments} --json")["hits"]
    assert (hit["tool"], hit["snippet"]) == ("Bash", "List files")
    for other in ("--project /elsewhere", "--role tool", "--tool Read", "--since 1m"):
        assert everything.json(f"{arguments} {other} --json")["hits"] == []
