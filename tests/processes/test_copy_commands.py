"""`sessiond rebase`, `merge`, `navigate`, `usage` and `stats` in a user's shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

LONG_ID: Final = "019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b"

SLASH_COMMANDS: Final = {
    "branch": "my-session entry-1",
    "fork": "my-session",
    "rebase": "my-session entry-1",
    "merge": "my-session other-one --text t",
    "compact": "my-session --summary s",
    "stats": "my-session",
    "export": "my-session exported.jsonl",
    "import": "session.jsonl",
    "navigate": "my-session entry-1",
    "usage": "my-session",
}


def test_rebased_entries_stand_in_the_order_of_the_command_line(shell: Shell) -> None:
    shell.output("sessiond label my-session entry-2 answer")
    made = shell.output("sessiond rebase my-session answer entry-1")
    assert shell.json(f"sessiond context {made} --json")["sources"] == ["entry-2", "entry-1"]
    lineage = shell.json(f"sessiond show {made} --json")["session"]["lineage"]
    assert (lineage["rebased_from"], lineage["parent_id"]) == ("my-session-id", "my-session-id")
    made = shell.output("sessiond rebase my-session --messages 1,0-0 --detached")
    assert shell.json(f"sessiond context {made} --json")["sources"] == ["entry-2", "entry-1"]
    lineage = shell.json(f"sessiond show {made} --json")["session"]["lineage"]
    assert lineage == {"rebased_from": "my-session-id", "detached": True}
    made = shell.output("sessiond rebase my-session --messages 0-1 --summary @question.txt")
    (message,) = shell.json(f"sessiond context {made} --json")["messages"]
    assert message["summary"] == "And now?"


def test_a_fork_is_made_in_a_root_for_the_program_of_the_root(shell: Shell) -> None:
    shell.output("mkdir -p theirs && sessiond roots add theirs --kind piglet")
    made = shell.output("sessiond fork my-session --root theirs --id the-fork")
    path = Path(shell.json(f"sessiond show {made} --json")["session"]["path"])
    assert (made, path.name) == ("the-fork", "the-fork.jsonl")
    assert shell.output("ls theirs") == path.name
    # A fork of the fork lies beside it.
    shell.output("sessiond fork the-fork --id next-fork")
    assert shell.output("ls theirs").split() == ["next-fork.jsonl", "the-fork.jsonl"]
    refused = shell.run("sessiond fork my-session --root .")
    assert refused.returncode != 0
    assert "is no root" in refused.stderr


def test_a_dry_run_says_what_would_be_and_stores_nothing(shell: Shell) -> None:
    ids = 'sessiond list --drafts --json | grep -o \'"id":"[^"]*\''
    shell.output("sessiond new --id other-one")
    before = shell.output(ids)
    done = shell.run("sessiond rebase my-session entry-1 --dry-run")
    assert "1 entry, 1 message" in done.stdout
    assert "without --dry-run" in done.stderr
    for line in ("--text both", "--text both --new"):
        told = shell.output(f"sessiond merge my-session other-one {line} --dry-run")
        assert "messages" in told
    assert shell.output(ids) == before
    assert shell.json("sessiond context my-session --json")["leaf_id"] == "entry-2"


@pytest.mark.parametrize(
    ("line", "status", "advice"),
    [
        ("rebase my-session", 2, "give the entries: ENTRY..., or --messages"),
        ("rebase my-session entry-1 --messages 0", 2, "give the entries: ENTRY..., or --messages"),
        ("rebase my-session --messages 1-0", 2, "0 is the first message"),
        ("rebase my-session --messages 0,x", 2, "0 is the first message"),
        ("rebase my-session --messages 0-999999999999999", 1, "2 messages, 0 to 1"),
        ("rebase my-session entry-1 entry-1", 1, "only once"),
        ("rebase my-session nowhere", 4, "sessiond tail my-session"),
        ("merge my-session my-session --text t", 1, "merged with itself"),
        ("merge my-session nowhere --text t", 4, "sessiond list"),
        ("merge my-session my-session --text t --prompt", 2, "--text, or --prompt"),
        ("navigate my-session nowhere", 4, "sessiond tail my-session"),
        ("navigate my-session entry-1 --head none", 4, "sessiond heads my-session"),
        ("navigate my-session null --prompt --summary s", 2, "leave --summary"),
        ("navigate my-session entry-2 --prompt", 1, "the branch leaves nothing to tell"),
        ("usage my-session --head none", 4, "sessiond heads my-session"),
        ("usage my-session --window 0", 2, "--window"),
        ("stats nowhere", 4, "sessiond list"),
    ],
)
def test_a_refusal_says_what_to_do_next(shell: Shell, line: str, status: int, advice: str) -> None:
    before = (shell.folder / "session.jsonl").read_bytes()
    done = shell.run(f"sessiond {line}")
    assert (done.returncode, done.stdout) == (status, "")
    assert advice in done.stderr
    shell.output("sessiond export my-session after.jsonl")
    assert (shell.folder / "after.jsonl").read_bytes() == before


def test_a_merge_appends_a_turn_or_begins_a_session_with_it(shell: Shell) -> None:
    shell.output("sessiond fork my-session --entries all --id other-one --detached")
    shell.output("sessiond append other-one 'It was the moon.'")
    prompt = shell.run("sessiond merge my-session other-one --prompt")
    assert "It was the moon." in prompt.stdout
    assert "quotes 2 entries and 3 entries" in prompt.stderr
    line = "sessiond merge my-session other-one --text - --expect-leaf entry-2"
    stored = shell.output(f"sessiond merge my-session other-one --prompt | tail -n 1 | {line}")
    merged = shell.json("sessiond context my-session --json")
    assert merged["sources"][-1] == stored
    assert merged["messages"][-1]["content"] == [{"type": "text", "text": "</session>"}]
    made = shell.output("sessiond merge my-session other-one --new --text 'Cron and moon.'")
    session = shell.json(f"sessiond show {made} --json")["session"]
    assert session["lineage"]["merge_source"] == "other-one"
    stale = shell.run(f"{line} <question.txt")
    assert stale.returncode == 1
    assert "sessiond tail my-session" in stale.stderr


def test_at_a_users_message_its_text_comes_back_to_be_changed(shell: Shell) -> None:
    assert shell.output("sessiond navigate my-session entry-1") == "null\nWhy is it late?"
    assert shell.output("sessiond navigate my-session entry-2 --label here") == "entry-2"
    done = shell.run("sessiond navigate my-session here")
    assert (done.stdout, done.stderr) == ("entry-2\n", "the head was there already\n")
    prompt = shell.output("sessiond navigate my-session null --prompt")
    assert "The cron job." in prompt
    shell.output("sessiond navigate my-session null --summary 'A dead end.'")
    (message,) = shell.json("sessiond context my-session --json")["messages"]
    assert message["summary"] == "A dead end."
    prompt = shell.output(
        "sessiond navigate my-session entry-2 --prompt --instructions 'Be brief.'"
    )
    assert "Be brief." in prompt
    refused = shell.run("sessiond navigate my-session entry-2 --summarize")
    assert refused.returncode != 0
    assert "--prompt" in refused.stderr
    assert "--summary" in refused.stderr
    for mixed in ("--summarize --summary x", "--instructions x", "--prompt --summarize"):
        assert shell.run(f"sessiond navigate my-session null {mixed}").returncode == 2


def test_usage_says_how_full_the_window_is_and_what_was_used(shell: Shell) -> None:
    message = (
        '{"role":"assistant","content":"x","usage":{"input_tokens":30,"output_tokens":12,'
        '"total_tokens":42,"cost":0.25}}'
    )
    shell.output(f"sessiond append my-session --json-message '{message}'")
    used = shell.output("sessiond usage my-session")
    assert "42 tokens: 30 in, 12 out" in used
    assert "0.2500" in used
    assert "not yet" in used
    assert "sessiond compact" in shell.output("sessiond usage my-session --window 1")
    figures = shell.output("sessiond stats my-session")
    for text in (
        "3 on main's path, 3 in all",
        "3, 1 head, 1 leaf",
        "1 user, 2 assistant",
        "42 tokens: 30 in, 12 out",
        "200000",
    ):
        assert text in figures
    told = shell.json("sessiond stats my-session --json")
    assert set(told) == {"session", "usage", "stats"}
    assert told["stats"]["whole"]["usage"] == told["usage"]["totals"]


def test_the_configured_command_writes_what_the_command_line_leaves_out(shell: Shell) -> None:
    writer = """["sh", "-c", "echo written for a $SESSIOND_PURPOSE"]"""
    shell.output(f"SESSIOND_SUMMARIZER_COMMAND='{writer}' sessiond restart")
    try:
        shell.output("sessiond fork my-session --id other-one")
        shell.output("sessiond merge my-session other-one")
        (block,) = shell.json("sessiond context my-session --json")["messages"][-1]["content"]
        assert block["text"] == "written for a merge"
        made = shell.output("sessiond merge my-session other-one --new")
        assert (
            shell.json(f"sessiond context {made} --json")["messages"][-1]["content"][0]["text"]
            == "written for a merge"
        )
        made = shell.output("sessiond rebase my-session entry-1 --squash")
        (message,) = shell.json(f"sessiond context {made} --json")["messages"]
        assert message["summary"] == "written for a squash"
        shell.output("sessiond navigate my-session null --summarize --instructions x")
        (message,) = shell.json("sessiond context my-session --json")["messages"]
        assert message["summary"] == "written for a branch"
    finally:
        shell.output("sessiond restart")


def test_ctrl_c_while_a_text_is_written_ends_the_writer_and_stores_nothing(shell: Shell) -> None:
    begun = shell.folder / "begun"
    os.mkfifo(begun)
    # Its end is the end of the writer: nobody else has the pipe open for writing.
    writer = json.dumps(["sh", "-c", f"exec >>{begun}; echo begun; sleep 600"])
    shell.output(f"SESSIOND_SUMMARIZER_COMMAND='{writer}' sessiond restart")
    try:
        shell.output("sessiond fork my-session --id other-one")
        process = shell.start("merge", "my-session", "other-one", stderr=subprocess.DEVNULL)
        with begun.open() as pipe:
            assert pipe.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 130
            assert pipe.read() == ""
        assert len(shell.json("sessiond context my-session --json")["messages"]) == 2
    finally:
        shell.output("sessiond restart")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("merge my-session other-one", "--text"),
        ("rebase my-session entry-1 --squash", "--summary"),
    ],
)
def test_without_a_writer_the_next_step_is_told_and_the_prompt_is_in_the_json(
    shell: Shell, line: str, option: str
) -> None:
    shell.output("sessiond new --id other-one")
    done = shell.run(f"sessiond {line} --json")
    assert done.returncode == 1
    assert "there is no writer of summaries: " in done.stderr
    assert option in done.stderr
    error = json.loads(done.stdout)["error"]
    assert "[User]: Why is it late?" in error["plan"]["prompt"]
    assert len(shell.json("sessiond context my-session --json")["messages"]) == 2


def test_a_terminal_shows_short_ids(shell: Shell) -> None:
    entry = f'{{"type":"custom","custom_type":"note","data":1,"id":"{LONG_ID}"}}'
    shell.output(f"sessiond append my-session --entry '{entry}'; sessiond new --id other-one")
    drawn = on_a_terminal(shell, 80, "navigate", "my-session", LONG_ID)
    assert drawn.splitlines()[0] == LONG_ID[-8:]


@pytest.mark.parametrize("name", SLASH_COMMANDS)
def test_the_slash_commands_of_other_programs_are_there(shell: Shell, name: str) -> None:
    """Row 173 of the features: each of these commands exists and does its work on a session."""
    shell.output("sessiond new --id other-one")
    shell.output(f"sessiond {name} {SLASH_COMMANDS[name]}")


def test_a_folder_is_imported_and_what_is_here_is_skipped(shell: Shell) -> None:
    # session.jsonl is an export of my-session, so its session is here.
    shell.output("mkdir -p old/deep && cp session.jsonl old/a.jsonl && echo no >old/b.jsonl")
    # The same words under another id are another session.
    shell.output("sed '1s/my-session-id/their-session/' session.jsonl >old/deep/c.jsonl")
    shell.output("touch old/d.txt")
    count = "sessiond list --json | grep -o '\"id\":' | wc -l"
    before = int(shell.output(count))

    def outcome(options: str) -> dict[str, list[str]]:
        done = shell.run(f"sessiond import {options} --json")
        assert done.returncode == 1, "one file is no session"
        found = msgspec.json.decode(done.stdout)
        return {what: [Path(one["file"]).name for one in found[what]] for what in found}

    shell.output("cp old/deep/c.jsonl old/deep/e.jsonl")
    first = {"imported": ["c.jsonl"], "skipped": ["a.jsonl", "e.jsonl"], "failed": ["b.jsonl"]}
    assert outcome("--dry-run old") == first
    assert int(shell.output(count)) == before
    assert outcome("old") == first
    assert int(shell.output(count)) == before + 1
    skipped = ["a.jsonl", "c.jsonl", "e.jsonl"]
    assert outcome("old") == first | {"imported": [], "skipped": skipped}
    text = shell.run("sessiond import old").stderr
    assert text.count("its session is here already") == len(skipped)
    assert "b.jsonl" in text


def test_an_import_names_each_line_that_it_leaves_out(shell: Shell) -> None:
    header = '{"type":"session","version":3,"id":"0197c1d2","timestamp":"2026-01-01T09:00:00.000Z"}'
    custom = (
        '{"type":"custom","id":"a1b2c3d4","timestamp":"2026-01-01T09:00:01.000Z","customType":"x"}'
    )
    lines = [header, "garbage", custom, *["{bad"] * 101]
    Path(shell.folder, "found.jsonl").write_text("\n".join(lines) + "\n")
    done = shell.run("sessiond import found.jsonl")
    assert done.returncode == 0, done.stderr
    assert "line 2: bad_line: " in done.stderr
    assert "and 2 more" in done.stderr
    assert "102 lines of found.jsonl could not be imported" in done.stderr
    report = json.loads(shell.output("sessiond import found.jsonl --json"))["imported"][0]["report"]
    assert (report["entries"], report["dropped"], len(report["problems"])) == (1, 102, 100)


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("page.html", "<!doctype html>"),
        ("PAGE.HTM", "<!doctype html>"),
        ("page.md", "# "),
        ("page.json", "{"),
        ("page.json --format nova", "{"),
        ("page.jsonl", '{"type":"session_header"'),
        ("page.jsonl --format pi", '{"type":"session"'),
        ("page.txt --format html", "<!doctype html>"),
        ("page", '{"type":"session_header"'),
    ],
)
def test_the_end_of_a_name_tells_the_format_of_an_export(
    shell: Shell, line: str, begins: str
) -> None:
    shell.output(f"sessiond export my-session {line}")
    made = (shell.folder / line.split()[0]).read_text("utf-8")
    assert made.lower().startswith(begins.lower())


@pytest.mark.parametrize("line", ["page.html --format markdown", "page.jsonl --format html"])
def test_a_name_and_a_format_that_do_not_fit_are_refused(shell: Shell, line: str) -> None:
    done = shell.run(f"sessiond export my-session {line}")
    assert done.returncode == 2
    assert "name the file otherwise, or leave --format out" in done.stderr
    assert not (shell.folder / line.split()[0]).exists()
