"""The arguments of commands: texts, flags before a command, short entry ids; and first output."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

ENTRY: Final = "019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("printf 'a\\nb\\n' | sessiond append my-session -", "a\nb"),
        ("printf 'a\\nb\\n' | sessiond append my-session", "a\nb"),
        ("printf 'a\\nb\\n\\n' | sessiond append my-session", "a\nb\n"),
        ("printf 'a\\r\\nb\\r\\n' | sessiond append my-session -", "a\r\nb"),
        ("printf 'a\\nb\\n' >said.txt; sessiond append my-session @said.txt", "a\nb"),
        ("sessiond append my-session @@alice", "@alice"),
        ("sessiond append my-session 'to @alice'", "to @alice"),
        (
            """echo '{"role":"user","content":"whole"}' >m.json
            sessiond append my-session --json-message @m.json""",
            "whole",
        ),
    ],
)
def test_a_text_is_the_same_however_it_comes(shell: Shell, script: str, said: str) -> None:
    done = shell.run(script)
    assert done.returncode == 0, done.stderr
    params = f"session_id=my-session-id entry_id={done.stdout.strip()}"
    row = shell.json(f"sessiond call session/entry {params}")
    assert row["entry"]["message"]["content"] == said


def test_a_text_of_a_file_that_is_not_there_says_how_to_begin_one_with_a_sign(shell: Shell) -> None:
    done = shell.run("sessiond append my-session @alice")
    assert done.returncode == 2
    assert "alice: No such file or directory; for a text that begins with @ write @@" in done.stderr
    for line in ("compact my-session --summary @none", "new --system-prompt @none"):
        assert shell.run(f"sessiond {line}").returncode == 2


@pytest.mark.parametrize(
    "script",
    [
        "sessiond --json list",
        "sessiond --profile default --json list",
        "sessiond --profile=other --json list --profile default",
        "sessiond --no-start --no-pager list --json",
        "sessiond --home $SESSIOND_HOME --json list --all",
    ],
)
def test_shared_flags_may_stand_before_the_command(shell: Shell, script: str) -> None:
    sessions = shell.json(script)["sessions"]
    assert [session["id"] for session in sessions] == ["my-session-id"]


def test_flags_before_a_command_mean_what_they_mean_behind_it(shell: Shell) -> None:
    assert (
        shell.json("sessiond --profile other --no-start --json status || true")["profile"]
        == "other"
    )
    # A command that starts nothing and pages nothing does what these ask for.
    assert shell.run("sessiond --no-start --no-pager sockname").returncode == 0
    wrong = shell.run("sessiond --json nosuch")
    assert (wrong.returncode, json.loads(wrong.stdout)["error"]["kind"]) == (2, "usage")
    assert shell.run("sessiond --profile").returncode == 2
    assert shell.run("sessiond --json").returncode == 2
    assert shell.run("sessiond --json --version").stdout.startswith("sessiond, version")


def test_help_is_a_command_too(shell: Shell) -> None:
    assert shell.run("sessiond help").stdout == shell.run("sessiond --help").stdout
    assert shell.run("sessiond help append").stdout == shell.run("sessiond append --help").stdout
    wrong = shell.run("sessiond help appendd")
    assert (wrong.returncode, "did you mean append" in wrong.stderr) == (2, True)


def test_an_append_on_a_terminal_says_that_it_waits(shell: Shell) -> None:
    script = "import pty, sys; sys.exit(pty.spawn(['sessiond', 'append', 'my-session']) >> 8)"
    done = shell.run(f'python3 -c "{script}"', stdin="hello\n\x04")
    assert "end it with Ctrl-D" in done.stdout
    piped = shell.run("sessiond append my-session", stdin="hi")
    assert piped.stderr == ""


def test_an_empty_list_says_how_to_begin(shell: Shell) -> None:
    done = shell.run("sessiond list --home empty")
    assert (done.returncode, done.stdout) == (0, "")
    commands = [line.strip() for line in done.stderr.splitlines() if line.startswith("  sessiond ")]
    assert len(commands) == 2
    for line in commands:
        told = shell.run(line.replace("sessiond", "sessiond --home empty"))
        assert told.returncode == 0, told.stderr
    assert "my first session" in shell.run("sessiond list --home empty").stdout
    filtered = shell.run("sessiond list --title nobody")
    assert "no session matches" in filtered.stderr
    assert shell.json("sessiond list --title nobody --json")["sessions"] == []
    shell.run("sessiond stop --home empty")


@pytest.mark.parametrize("ref", ["019a1b2c", "2e3f4a5b", "'the turn'"])
def test_an_entry_goes_by_a_part_of_its_id_and_by_its_label(shell: Shell, ref: str) -> None:
    entry = {"type": "message", "id": ENTRY, "message": {"role": "user", "content": "x"}}
    assert shell.run(f"sessiond append my-session --entry '{json.dumps(entry)}'").returncode == 0
    assert shell.run(f"sessiond label my-session {ENTRY} 'the turn'").returncode == 0
    for line in (
        "context my-session --entry REF --json",
        "tree my-session --around REF --json",
        "fork my-session --at REF --json",
        "label my-session REF 'the turn' --json",
        "compact my-session --summary s --keep-from REF --expect-leaf REF --json",
        "append my-session hi --parent REF --json",
        "branch my-session REF --json",
        "rewind my-session REF --expect-leaf REF --json",
    ):
        done = shell.run(f"sessiond {line.replace('REF', ref)}")
        assert done.returncode == 0, done.stderr


def test_an_entry_that_is_not_clear_names_those_that_could_be_meant(shell: Shell) -> None:
    done = shell.run("sessiond branch my-session entr")
    assert done.returncode == 4
    assert "entry-1" in done.stderr
    assert "entry-2" in done.stderr
    shown = on_a_terminal(shell, 80, "branch", "my-session", "entry-1")
    assert shown.strip() == "entry-1"


def test_a_search_in_one_session_takes_any_name_of_it(shell: Shell) -> None:
    made = shell.run("sessiond new --title 'Fix the clock'").stdout.strip()
    for session in (made, "my-session"):
        shell.run(f"sessiond append {session} needle")
    shell.run(f"sessiond archive {made}")
    assert "needle" in shell.run("sessiond search needle").stdout
    found = shell.json("sessiond search --session 'fix the clock' needle --json")["hits"]
    assert [hit["session_id"] for hit in found] == [made]
    assert shell.run("sessiond search --session nowhere needle").returncode == 4
