"""The drawing of commands on terminals: narrow ones, and ones with too few lines."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from sessiond.cli.ui.text import cells
from tests.kit.sessions import entry
from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

WIDTHS: Final = (40, 80, 120)


def fill(shell: Shell, entries: list[Any], session_id: str = "my-session-id") -> None:
    """Append entries with ids of their own."""
    params = {"session_id": session_id, "entries": entries}
    (shell.folder / "entries.json").write_text(json.dumps(params), "utf-8")
    done = shell.run("sessiond call append @entries.json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_list_says_all_that_it_says_on_a_wide_terminal(shell: Shell, columns: int) -> None:
    made = shell.run("sessiond new --title 'Fix the clock'").stdout.strip()
    drawn = on_a_terminal(shell, columns, "list")
    assert all(cells(line) <= columns for line in drawn.splitlines()), drawn
    rows = drawn.split(made[-8:])
    assert len(rows) == 2, "the short id is there, whole"
    assert "Fix the clock" in rows[1]
    assert "project" in rows[1]
    shown = shell.json(f"sessiond show {made[-8:]} --json")
    assert shown["session"]["id"] == made


def test_the_short_ids_of_sessions_made_in_a_minute_differ_and_can_be_pasted(shell: Shell) -> None:
    made = {shell.run(f"sessiond new --title t{at}").stdout.strip() for at in range(5)}
    drawn = on_a_terminal(shell, 80, "list")
    words = [line.split()[0] for line in drawn.splitlines() if re.match("[0-9a-f]{8} ", line)]
    assert len(words) == 5
    assert {shell.json(f"sessiond show {word} --json")["session"]["id"] for word in words} == made


def test_ids_on_a_terminal_are_short_and_each_can_be_pasted(shell: Shell) -> None:
    ids = [f"019a1b2c-3d4e-7{at:03x}-8b6f-{at + 7:012x}" for at in range(3)]
    fill(shell, [entry(one, "x") for one in ids])
    for at, one in enumerate(ids):
        shell.run(f"sessiond label my-session {one} 'label {at}'")
    for words in ("tail", "show", "tree --ids", "label", "context"):
        drawn = on_a_terminal(shell, 80, *words.split(), "my-session")
        for one in ids:
            assert one not in drawn, words
            assert one[-8:] in drawn, words
    for one in ids:
        assert shell.output(f"sessiond branch my-session {one[-8:]}") == one
    assert ids[-1][-8:] in on_a_terminal(shell, 80, "heads", "my-session")


@pytest.mark.parametrize("columns", WIDTHS)
def test_lines_on_a_terminal_fit_and_have_no_tab(shell: Shell, columns: int) -> None:
    entry_id = "0123456789abcdef0123456789abcdef"
    fill(shell, [entry(entry_id, "時計\t\x1b[2J が " * 60)])
    shell.run("sessiond rename my-session-id $'my\\tsession'")
    fitting = ("tail my-session-id", "tree my-session-id --ids", "forest")
    for words in (*fitting, "dump session.jsonl --content"):
        drawn = on_a_terminal(shell, columns, *words.split())
        assert "\t" not in drawn, words
        assert "\x1b" not in drawn, words
        assert "forest" in words or "dump" in words or "89abcdef" in drawn
        if words in fitting:
            assert all(cells(line) <= columns for line in drawn.splitlines()), drawn
    # In a pipe the cells stand between tabs, and ids are whole.
    assert f"\t{entry_id}\t" in shell.run("sessiond tail my-session-id").stdout


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_search_cuts_its_text_and_nothing_that_is_pasted(shell: Shell, columns: int) -> None:
    entry_id = "0123456789abcdef0123456789abcdef"
    fill(shell, [entry(entry_id, "needle" + "x" * 199_000)])
    drawn = on_a_terminal(shell, columns, "search", "needle")
    assert entry_id in drawn
    assert "my-session-id" in drawn
    assert all(cells(line) <= columns for line in drawn.splitlines()), drawn
    piped = shell.run("sessiond search needle").stdout
    assert len(piped) < 400


def test_a_tree_shows_its_heads_and_a_part_of_it_around_an_entry(shell: Shell) -> None:
    fill(shell, [entry(f"more-{at}", "x") for at in range(30)])
    shell.run("sessiond branch my-session more-10 --head reviewer")
    shell.run("sessiond label my-session more-20 here")
    assert " ◀ reviewer" in shell.run("sessiond tree my-session").stdout
    part = shell.run("sessiond tree my-session --around here --ids").stdout.splitlines()
    assert part[0] == "… 12 above"
    assert part[1].endswith("(more-10)")
    wrong = shell.run("sessiond tree my-session --form flat --depth 1")
    assert (wrong.returncode, "--depth is for --form text only" in wrong.stderr) == (2, True)


def test_what_is_longer_than_the_terminal_goes_to_the_pager(shell: Shell) -> None:
    fill(shell, [entry(f"more-{at}", "x") for at in range(30)])
    pager = {"PAGER": "sed 's/^/PAGED /'"}
    for words in (["tree", "my-session"], ["tail", "my-session", "-n", "30"]):
        drawn = on_a_terminal(shell, 80, *words, lines=20, environment=pager)
        assert drawn.count("PAGED ") >= 30
        assert "PAGED" not in on_a_terminal(shell, 80, *words, lines=60, environment=pager)
        for off in ([*words, "--no-pager"], ["--no-pager", *words]):
            assert "PAGED" not in on_a_terminal(shell, 80, *off, lines=20, environment=pager)
    # Lines of a drawing are cut, and those of a text wrapped.
    told = {"PAGER": "echo told $LESS; cat"}
    for words, options in ((["tree", "my-session"], "FRSX"), (["context", "my-session"], "FRX")):
        drawn = on_a_terminal(shell, 80, *words, lines=20, environment=told)
        assert f"told {options}\n" in drawn
    # Who has chosen no program gets less.
    less = shell.folder / "less"
    less.write_text("#!/bin/sh\necho told less; exec cat\n")
    less.chmod(0o700)
    path = {"PATH": f"{less.parent}:{shell.environment['PATH']}"}
    unset = ("env", "-u", "PAGER", shell.command)
    drawn = on_a_terminal(
        shell, 80, "tree", "my-session", lines=20, environment=path, program=unset
    )
    assert "told less\n" in drawn
    piped = shell.run("PAGER='sed s/^/PAGED/' sessiond tree my-session").stdout
    assert "PAGED" not in piped


def test_who_leaves_a_pager_early_has_done_nothing_wrong(shell: Shell) -> None:
    for _ in range(3):
        shell.run("sessiond append my-session", stdin="word\n" * 60_000)
    drawn = on_a_terminal(
        shell, 80, "context", "my-session", lines=20, environment={"PAGER": "head -n 3"}
    )
    assert drawn.count("\n") <= 4


def test_a_pager_that_is_not_there_is_named(shell: Shell) -> None:
    with pytest.raises(AssertionError, match=r"no-such-pager.*--no-pager"):
        on_a_terminal(
            shell, 80, "dump", "session.jsonl", lines=2, environment={"PAGER": "no-such-pager"}
        )
