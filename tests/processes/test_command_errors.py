"""The output of commands after a user's mistake, on narrow terminals, and without an output."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("append my-session --entry []", 2, "Expected `object`, got `array`"),
        ("append my-session --json-message 1", 2, "Expected `object`, got `int`"),
        ("compact my-session --messages {}", 2, "Expected `array`, got `object`"),
        ("append my-session ''", 2, "the text is empty"),
        ("append my-session </dev/null", 2, "the text is empty"),
        ("new --id short", 2, "an id has 8 to 128 characters of"),
        ("sho", 2, "No such command 'sho', did you mean show"),
        ("call nosuch", 2, "there is no method nosuch: see `sessiond call --list`"),
        ("completion", 2, "Choose from: bash, zsh, fish"),
        ("show twin", 4, "more than one session matches: use an id: "),
        ("append put-away hi", 1, "the session is archived: bring it back first: "),
        ("append my-session hi --head nobody", 4, "no head of this name: see "),
        (
            "compact my-session",
            1,
            "there is nothing to summarise at this head now: go on; no compaction is needed",
        ),
        ("export my-session session.jsonl", 1, "(FOLDER/session.jsonl): choose another name"),
        ("verify '~nobody-at-all/x.jsonl'", 1, "home directory: set $HOME, or name the folder"),
        (
            "list --config none.toml",
            2,
            "there is no configuration file FOLDER/none.toml: make the file",
        ),
        (
            "list --no-start --profile 'b' --home 'a b' --socket b.sock",
            3,
            "`sessiond start --profile b --home 'a b' --socket b.sock`",
        ),
        ("import empty.jsonl", 1, "sessiond: empty.jsonl, line 1: it is empty"),
        ("import empty.jsonl", 1, "see `sessiond verify empty.jsonl`"),
        ("purge --yes my-session-id", 1, "my-session-id is not in the trash: delete it first"),
        (
            "new --id my-session-id",
            1,
            "use another id; `sessiond new --open --id my-session-id` takes the existing session",
        ),
        ("purge my-session-id </dev/null", 1, "no session was purged: run it with --yes"),
    ],
)
def test_an_error_says_what_is_wrong_once_and_what_helps(
    shell: Shell, line: str, status: int, said: str
) -> None:
    for title in ("twin", "twin", "put-away"):
        shell.run(f"sessiond new --title {title}")
    shell.run("sessiond archive put-away")
    (shell.folder / "empty.jsonl").touch()
    done = shell.run(f"sessiond {line}")
    assert done.returncode == status, done.stderr
    assert said.replace("FOLDER", str(shell.folder)) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_closed_standard_stream_is_one_that_takes_nothing(shell: Shell) -> None:
    assert shell.run("sessiond list >&-").returncode == 0
    assert shell.run("sessiond show nosuch 2>&-").returncode == 4
    assert shell.run("sessiond append my-session <&-").returncode == 2
    assert shell.run("sessiond stop >&- 2>&- <&-; sessiond start >&- 2>&- <&-").returncode == 0
    assert shell.json("sessiond status --json")["running"] is True


@pytest.mark.parametrize("columns", [80, 120])
def test_a_list_on_a_terminal_keeps_its_columns(shell: Shell, columns: int) -> None:
    shell.run(f"sessiond new --title '{'時計' * 30}'")
    first, second, *_ = on_a_terminal(shell, columns, "list").splitlines()
    assert first.split() == ["ID", "UPDATED", "STATUS", "TURNS", "MESSAGES", "TITLE", "FOLDER"]
    assert "時計" in second
    assert "…" in second


def test_every_label_is_listed(shell: Shell) -> None:
    ids = [f"x{number}" for number in range(501)]  # one more than a page
    entries = [{"type": "custom", "custom_type": "x", "id": entry_id} for entry_id in ids]
    requests: list[dict[str, Any]] = [
        {"method": "append", "params": {"entries": entries}},
        *(
            {"method": "session/label", "params": {"entry_id": entry_id, "label": "l"}}
            for entry_id in ids
        ),
    ]
    for number, request in enumerate(requests):
        request["id"] = number
        request["params"]["session_id"] = "my-session-id"
    shell.run("sessiond stdio", stdin="\n".join(map(json.dumps, requests)))
    listed = shell.run("sessiond label my-session").stdout.splitlines()
    assert [row.split("\t")[0] for row in listed] == ids


def test_the_doctor_says_that_the_files_cannot_be_looked_at(shell: Shell) -> None:
    (shell.folder / "home/profiles/default").mkdir(parents=True, mode=0o700)
    (shell.folder / "home/profiles/default/sessions").touch(0o600)
    done = shell.run("sessiond doctor --home home")
    assert done.returncode == 1
    assert "!!  files     could not list" in done.stdout
    assert "ok  disk" in done.stdout
    assert done.stderr == ""


def test_a_temporary_folder_that_is_not_there_is_named(shell: Shell) -> None:
    done = shell.run("env -u XDG_RUNTIME_DIR TMPDIR=$PWD/none sessiond start --profile b")
    assert done.returncode == 3
    said = f"cannot make the folder {shell.folder}/none/sessiond-{os.getuid()}: No such file"
    assert said in done.stderr
    assert "Errno" not in done.stderr


def test_a_restore_that_is_refused_gives_the_advice_of_a_restore(shell: Shell) -> None:
    done = shell.run("sessiond restore my-session-id")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("delete that session before you restore this one")


def test_the_configuration_shown_is_that_of_a_daemon_that_is_started_when_needed(
    shell: Shell,
) -> None:
    rows = [row.split("\t") for row in shell.run("sessiond config").stdout.splitlines()[1:]]
    assert ["idle_exit_seconds", "1800", "default"] in rows
    assert ["limits.idle_session_seconds", "300", "default"] in rows


def test_the_configuration_shown_is_that_of_the_daemon_that_the_command_line_names(
    shell: Shell,
) -> None:
    def socket(line: str) -> list[str]:
        rows = [row.split("\t") for row in shell.run(line).stdout.splitlines()]
        return next(row[1:] for row in rows if row[0] == "socket")

    environment = "env SESSIOND_SOCKET=/from/environment sessiond config"
    assert socket(environment) == ["/from/environment", "$SESSIOND_SOCKET"]
    assert socket(f"{environment} --profile b") == ["-", "flag"]
    assert socket(f"{environment} --socket /given") == ["/given", "flag"]


def test_a_file_outside_the_profile_is_deleted_only_if_that_is_meant(shell: Shell) -> None:
    path = shell.folder / "session.jsonl"
    data = path.read_bytes()
    assert shell.run("sessiond show ./session.jsonl; sessiond list").stdout.count("my-session") >= 1
    listed = shell.json("sessiond list --json")["sessions"]
    assert [session["id"] for session in listed] == ["my-session-id"]
    asked = shell.run("sessiond delete ./session.jsonl || echo $?")
    assert asked.stdout.strip().endswith("1")
    assert "lies outside the profile" in asked.stderr
    assert path.read_bytes() == data
    gone = shell.run("sessiond delete --yes ./session.jsonl")
    assert (gone.returncode, path.exists()) == (0, False)
    back = shell.run(f"sessiond restore {gone.stdout.strip()}")
    assert (back.returncode, path.read_bytes()) == (0, data)


@pytest.mark.parametrize(
    "command",
    [
        "show {}",
        "tail {}",
        "export {} -",
        "repair {}",
        "verify {}",
        "tree {}",
        "context {}",
        "dump {}",
        "heads {}",
        "label {}",
    ],
)
def test_a_command_that_only_reads_a_file_leaves_it_as_it_is(shell: Shell, command: str) -> None:
    path = shell.folder / "session.jsonl"
    data = path.read_bytes() + b'{"type":"mess'
    path.write_bytes(data)
    before, names = path.stat().st_mtime_ns, sorted(one.name for one in shell.folder.iterdir())
    done = shell.run(f"sessiond {command.format('./session.jsonl')} || test $? = 1")
    assert done.returncode == 0, done.stderr
    shell.run("sessiond list")
    assert path.read_bytes() == data
    assert path.stat().st_mtime_ns == before
    assert sorted(one.name for one in shell.folder.iterdir()) == names
