"""Every command that the README, docs/commands.md or a --help shows is run here.

What the examples take for granted is made in harness/shell.py: a session titled my-session
with the id my-session-id and the entries entry-1 and entry-2, its copy session.jsonl, and
message.json. The examples of one command are one story before which there is nothing else.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pytest

from sessiond.cli import CONTENTS
from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

REPOSITORY: Final = Path(__file__).resolve().parents[2]
COMMANDS: Final = {
    listed.name: importlib.import_module(f"sessiond.cli.commands.{listed.module}").COMMAND
    for listed in CONTENTS
}

# What must have happened before an example can be true.
BEFORE: Final = {
    "unarchive": "sessiond archive my-session",
    "restore": "sessiond delete my-session",
    "purge": "sessiond delete my-session",
    "repair": "echo 'no entry' >>session.jsonl",
}

# These go on until they are ended; test_daemon_lifecycle.py and the tests of browse, lsp and mcp run them.
ENDLESS: Final = {"browse", "serve", "lsp", "mcp"}

# Each command's --json, and what the document must have.
JSON: Final[dict[str, tuple[str, set[str]]]] = {
    "start": ("sessiond start --json", {"running", "started", "pid", "socket"}),
    "stop": ("sessiond stop --json", {"running"}),
    "restart": ("sessiond restart --json", {"running", "pid", "socket"}),
    "status": ("sessiond status --json", {"running", "pid", "version"}),
    "sockname": ("sessiond sockname --json", {"socket"}),
    "profiles": ("sessiond profiles --json", {"profiles"}),
    "config": ("sessiond config --json", {"file", "settings"}),
    "stats": ("sessiond stats --json", {"sessions_open", "sessions"}),
    "new": ("sessiond new --json", {"session", "created"}),
    "list": ("sessiond list --json", {"sessions", "next_cursor", "revision"}),
    "show": ("sessiond show my-session --json", {"session", "entries"}),
    "turns": ("sessiond turns my-session --json", {"turns", "next_cursor"}),
    "append": ("sessiond append my-session hi --json", {"entries", "leaf_id", "seq"}),
    "context": ("sessiond context my-session --json", {"messages", "sources", "tokens"}),
    "continue": ("sessiond continue --json", {"session", "created"}),
    "scope": (
        "sessiond scope project --from /tmp --json",
        {"session", "created", "released", "loaded", "failed"},
    ),
    "search": ("sessiond search cron --json", {"hits"}),
    "forest": ("sessiond forest --json", {"text"}),
    "retention": ("sessiond retention --hours 720 --json", {"sessions", "failed", "dry_run"}),
    "rename": ("sessiond rename my-session new --json", {"session"}),
    "brief": ("sessiond brief my-session --json", {"resume", "context", "state", "fork_count"}),
    "task": ("sessiond task my-session --json", {"resume", "context", "state", "pruned"}),
    "decide": ("sessiond decide my-session UTC --json", {"state", "leaf_id", "seq"}),
    "artifact": ("sessiond artifact my-session a b --json", {"state", "leaf_id", "seq"}),
    "prune": ("sessiond prune my-session --json", {"state", "pruned", "reasons"}),
    "archive": ("sessiond archive my-session --json", {"sessions"}),
    "unarchive": ("sessiond unarchive my-session --json", {"sessions"}),
    "delete": ("sessiond delete my-session --json", {"sessions"}),
    "trash": ("sessiond trash --json", {"sessions", "next_cursor"}),
    "restore": ("sessiond restore my-session-id --json", {"sessions"}),
    "forget": ("sessiond forget ./session.jsonl --json", {"sessions"}),
    "roots": ("sessiond roots --json", {"roots"}),
    "state": ("sessiond state list --json", {"namespaces", "aside", "revision"}),
    "secret": ("sessiond secret list --json", {"secrets", "aside"}),
    "purge": ("sessiond purge --yes my-session-id --json", {"sessions"}),
    "tree": ("sessiond tree my-session --json", {"text"}),
    "branch": ("sessiond branch my-session entry-1 --json", {"leaf_id", "head", "seq"}),
    "fork": ("sessiond fork my-session --at entry-1 --json", {"session"}),
    "navigate": (
        "sessiond navigate my-session entry-1 --json",
        {"leaf_id", "head", "moved", "editor_text"},
    ),
    "usage": ("sessiond usage my-session --json", {"tokens", "window", "totals"}),
    "rebase": ("sessiond rebase my-session entry-2 --json", {"session"}),
    "merge": (
        "sessiond new --id other-one >made; sessiond merge my-session other-one --text s --json",
        {"entry", "leaf_id", "seq"},
    ),
    "rewind": ("sessiond rewind my-session entry-1 --json", {"leaf_id", "rewound"}),
    "heads": ("sessiond heads my-session --json", {"heads"}),
    "label": ("sessiond label my-session --json", {"labels"}),
    "plan": ("sessiond plan my-session --keep 1 --json", {"plan"}),
    "compact": ("sessiond compact my-session --summary s --json", {"entry", "tokens_after"}),
    "import": ("sessiond import session.jsonl --json", {"imported", "failed"}),
    "export": ("sessiond export my-session --json", {"content", "entries"}),
    "verify": ("sessiond verify session.jsonl --json", {"ok", "problems", "lines"}),
    "repair": ("sessiond repair my-session --json", {"problems", "dry_run"}),
    "doctor": ("sessiond doctor --json", {"ok", "checks"}),
    "call": ("sessiond call server/ping --json", {"ok"}),
}
# The same of those that print a document a line.
JSON_LINES: Final = {
    "tail": ("sessiond tail my-session --json", {"seq", "entry"}),
    "dump": ("sessiond dump session.jsonl --json", {"line", "offset", "size", "type"}),
}


def examples_of(command: click.Command) -> list[str]:
    """Return the command lines under "Examples:" in a command's help."""
    context = click.Context(command, info_name=f"sessiond {command.name}")
    _, _, examples = command.get_help(context).partition("\nExamples:\n")
    return [line.strip() for line in examples.splitlines() if line.strip()]


def blocks_of(page: str) -> list[str]:
    """Every block of code of a page, indented or fenced, a fence's language before it."""
    text = (REPOSITORY / page).read_text("utf-8")
    fenced = re.findall(r"^```(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^ {4}.*\n)+", rest, re.MULTILINE)
    return [
        *fenced,
        *("\n" + re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in indented),
    ]


def shell_blocks(page: str) -> list[str]:
    """Return the blocks of a page that are command lines of sessiond, without output."""
    return [
        block
        for block in blocks_of(page)
        if block.startswith("\n") and "sessiond" in block and not is_about_a_checkout(block)
    ]


def is_about_a_checkout(block: str) -> bool:
    """Return whether every line is one that installs or makes something."""
    starts = ("make ", "pip install .", "pipx install .", "uv tool install .")
    return all(line.startswith(starts) for line in block.strip().splitlines())


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - ENDLESS))
def test_the_examples_of_a_help_run(shell: Shell, name: str) -> None:
    if name in BEFORE:
        shell.output(BEFORE[name])
    for example in examples_of(COMMANDS[name]):
        shell.output(example)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_of_itself(name: str) -> None:
    assert any(f"sessiond {name}" in line for line in examples_of(COMMANDS[name]))


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_the_examples_of_a_command_that_goes_on_are_command_lines(name: str) -> None:
    for example in examples_of(COMMANDS[name]):
        program, command, *arguments = shlex.split(example)
        assert (program, command) == ("sessiond", name)
        COMMANDS[name].make_context(name, arguments)


def test_the_tour_of_the_readme_draws_what_it_shows(
    shell: Shell, program: Callable[[str], str]
) -> None:
    """The ten lines, in one shell on a terminal; then the block that goes on with their session."""
    (tour,) = [block for block in blocks_of("README.md") if block.startswith("console\n")]
    # Each command behind a `$`, and the output below it.
    parts = re.split(r"^\$ (.*)\n", tour.partition("\n")[2], flags=re.MULTILINE)
    lines = list(zip(parts[1::2], parts[2::2], strict=True))
    assert len(lines) == 10
    between = "- - - - -"
    script = "\n".join(f"{command}; echo '{between}'" for command, _ in lines)
    bash = ("bash", "-euo", "pipefail", "-c")
    drawn = on_a_terminal(shell, 100, script, program=bash).split(f"{between}\n")
    for (command, shown), happened in zip(lines, drawn, strict=False):
        assert elided(happened) == elided(shown), command
    assert len(drawn) == len(lines) + 1
    program("socat")
    (with_socat,) = shell_blocks("README.md")
    answers = [json.loads(line) for line in shell.output(with_socat).splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["messages"][-1]["content"] == "hi"


def elided(drawn: str) -> list[str]:
    """Return the lines without random ids and without the widths of columns."""
    without_ids = re.sub(r"\b[0-9a-f]{8,32}\b", "ID", drawn)
    return [re.sub(" {2,}", "  ", line).rstrip() for line in without_ids.splitlines()]


def test_the_blocks_of_the_page_on_commands_run(shell: Shell) -> None:
    blocks = shell_blocks("docs/commands.md")
    assert len(blocks) == 8
    for block in blocks:
        shell.output(block)


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md", "docs/developing.md"])
def test_every_block_of_a_page_is_run_or_of_a_kind_that_another_test_runs(page: str) -> None:
    for block in blocks_of(page):
        # The demo is run by test_demo.py, Python below; TypeScript is compiled by the client's tests.
        is_elsewhere = block.startswith(("console\n", "python\n", "ts\n", "text\n$ make demo\n"))
        assert is_elsewhere or is_about_a_checkout(block) or block in shell_blocks(page), block


def test_targets_that_a_page_names_are_in_the_makefile() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    pages = [(REPOSITORY / page).read_text("utf-8") for page in ("README.md", "docs/developing.md")]
    named = set(re.findall(r"(?:^ {4}|`|\$ )make ([a-z-]+)", "\n".join(pages), re.MULTILINE))
    assert {"demo", "test", "search"} <= named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_session_of_the_readmes_python_is_listed_and_goes_by_its_title(shell: Shell) -> None:
    (block,) = [block for block in blocks_of("README.md") if block.startswith("python\n")]
    # It follows the session for ever: what it prints first is its end here.
    script = f"import sys\n\ndef print(*words):\n    sys.exit(0)\n\n{block.removeprefix('python')}"
    (shell.folder / "example.py").write_text(script, "utf-8")
    shell.output(f"{sys.executable} example.py")
    listed = shell.json("sessiond list --json")["sessions"]
    (title,) = [one["title"] for one in listed if one["cwd"] == "/my/project"]
    assert shell.json(f"sessiond show '{title}' --json")["session"]["first_message"] == "hi"


def test_a_session_without_an_entry_is_shown(shell: Shell) -> None:
    made = shell.output("sessiond new").strip()
    shown = shell.output(f"sessiond show {made}")
    assert re.search(rf"^id: +{made}$", shown, re.MULTILINE)
    assert "leaf_id" not in shown


def test_who_names_a_part_of_a_title_deletes_nothing(shell: Shell) -> None:
    made = shell.output("sessiond new --title 'Fix the clock'").strip()
    done = shell.run("sessiond delete clock")
    assert done.returncode == 4
    assert f"give the whole title, or the id {made}" in done.stderr
    assert made in shell.output("sessiond list --json")


@pytest.mark.parametrize("name", [*JSON, *JSON_LINES])
def test_json_is_one_document_or_lines_of_them(shell: Shell, name: str) -> None:
    if name in BEFORE:
        shell.output(BEFORE[name])
    line, members = {**JSON, **JSON_LINES}[name]
    lines = shell.output(line).splitlines()
    assert name in JSON_LINES or len(lines) == 1
    assert lines
    for text in lines:
        document: dict[str, Any] = json.loads(text)
        assert members <= set(document)


def test_a_plan_and_the_views_of_a_context_are_for_pipes(shell: Shell) -> None:
    script = """
        plan=$(sessiond plan my-session --keep 1 --id)
        sessiond plan my-session --keep 1 --instructions 'the tests' | tail -n 1 >last
        sessiond compact my-session --plan "$plan" --summary - <last
        sessiond context my-session --repair --shape openai
    """
    compacted, *context = shell.output(f"set -e\n{script}").splitlines()
    assert re.search(r"^\S+: \d+ tokens before, \d+ tokens after$", compacted)
    # The prompt went through the pipe, and what came of it is what a model is given.
    assert "Above all, mind this: the tests" in context
    assert context[0].startswith("--- user (")
    nothing = shell.run("sessiond plan my-session")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing to compact" in nothing.stderr
    document = shell.json("sessiond plan my-session --json")
    assert document == {"plan": None, "reason": "compacted"}
    again = shell.run("sessiond compact my-session --plan plan-1-x --summary s")
    assert again.returncode != 0
    assert "no plan has this id" in again.stderr


def test_the_json_of_no_command_is_left_out() -> None:
    with_json = {
        name
        for name, command in COMMANDS.items()
        if any(param.name == "as_json" for param in command.params)
    }
    assert with_json == {*JSON, *JSON_LINES}


def test_a_repair_says_what_became_of_each_entry(shell: Shell) -> None:
    path = Path(shell.json("sessiond show my-session --json")["session"]["path"])
    given = {
        "type": "message",
        "timestamp": "2026-02-01T09:00:00.000Z",
        "message": {"role": "user"},
    }
    lines = [
        given | {"id": "an-orphan", "parent_id": "gone"},
        given | {"id": "a-child", "parent_id": "a-parent"},
        given | {"id": "a-parent", "parent_id": "entry-1"},
    ]
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    said = "6 lines {}kept, 1 entry put below another parent, 1 entry put behind the parent"
    would = shell.output("sessiond repair my-session").split("\n")
    assert would[-1] == said.format("would be ") + ": do it with --apply"
    with path.open("a") as file:
        file.write("no entry\n")
    done = shell.output("sessiond repair my-session --apply").split("\n")
    assert done[-2] == said.format("").replace("kept", "kept, 1 line (7) left out")
    assert done[-1].startswith("original file: ")
