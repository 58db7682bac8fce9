"""The ends of commands: by themselves, by a signal, by a lost daemon or reader; and `call`."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from sessiond.methods import METHODS
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.shell import Shell
from tests.processes.harness.terminal import on_a_terminal

pytestmark = pytest.mark.slow

# Required parameters by name, and what else a call needs to be one that can be done.
REQUIRED: Final[dict[str, Any]] = {
    "session_id": "my-session-id",
    "entry_id": "entry-1",
    "cwd": "/p",
    "label": "here",
    "to": None,
    "ref": "my-session",
    "query": "cron",
    "max_age_hours": 24,
    "ttl_ms": 1000,
    "lease_id": "nobodys-lease",
    "kind": "steer",
    "other_session_id": "other-session-id",
    "refs": ["entry-1"],
    "scope": "global",
    "namespace": "settings",
    "key": "theme",
    "value": "dark",
    "name": "report",
    "decision": "Keep it.",
    "path": "report.md",
}
ALSO: Final[dict[str, dict[str, Any]]] = {
    "session/branch": {"entry_id": "entry-1"},
    "session/append": {"message": {"role": "user", "content": "hi"}},
    "session/update": {"title": "my-session"},
    "session/compact": {"summary": "short"},
    "session/open": {"session_id": "my-session-id"},
    "session/create": {"session_id": "other-session-id"},
    "session/rebase": {"entry_ids": ["entry-1"]},
    "session/import": {"path": "@FOLDER/session.jsonl"},
    "scope/switch": {"project": "/"},
    "session/merge": {"text": "both"},
    "state/load": {"path": "@FOLDER/settings.json"},
    "state/save": {"path": "@FOLDER/saved.json"},
}
# Without what only a conversation can have: a subscription, a lease; and what is in no trash.
REFUSED: Final = {
    "session/unsubscribe": "subscription_not_found",
    "session/flush": "subscription_not_found",
    "session/renew": "lease_lost",
    "session/restore": "session_exists",
    "session/forget": "invalid_params",
    "session/purge": "session_exists",
}
# What would leave nothing for those that come after it.
LAST: Final = ("session/archive", "session/unarchive", "session/delete", "server/stop")


def test_call_calls_every_method(shell: Shell) -> None:
    (shell.folder / "settings.json").write_text('{"size": 12}')
    methods = sorted(
        METHODS,
        key=lambda method: (
            method.name in LAST,
            LAST.index(method.name) if method.name in LAST else 0,
        ),
    )
    for method in methods:
        params = {**ALSO.get(method.name, {})}
        for field in msgspec.structs.fields(method.params):
            if field.required:
                assert field.encode_name in REQUIRED, f"say a value of {field.name} here"
                params.setdefault(field.encode_name, REQUIRED[field.encode_name])
        if path := params.get("path"):
            params["path"] = path.replace("@FOLDER", str(shell.folder))
        words = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in params.items()
        ]
        done = subprocess.run(
            [shell.command, "call", method.name, "--json", *words],
            cwd=shell.folder,
            env=shell.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout)
        if method.name in REFUSED:
            assert answer["error"]["kind"] == REFUSED[method.name]
            assert done.returncode in {1, 4}
        else:
            assert done.returncode == 0, f"{method.name}: {done.stderr}"


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("sessiond show no-such-session", 4, "see `sessiond list --archived any --drafts`"),
        ("sessiond branch my-session no-such-entry", 4, "see `sessiond tail my-session`"),
        (
            "sessiond append my-session hi --head nobody",
            4,
            "`sessiond branch my-session ENTRY --head NAME` makes one",
        ),
        ("sessiond append my-session hi --expect-leaf entry-1", 1, "decide again"),
        ("sessiond show ./no-such.jsonl", 1, "No such file"),
        ("sessiond export my-session session.jsonl", 1, "the name is taken"),
        ("sessiond state save settings session.jsonl", 1, "what is there is not written over"),
        ("sessiond state save settings .", 1, "or move what is there out of the way"),
        ("sessiond call server/pong", 2, "did you mean server/ping"),
        ("sessiond call session/get sesion_id=my-session-id", 1, "sesion_id"),
        ("sessiond call session/get session_id", 2, "is not KEY=VALUE"),
        ("sessiond call session/get @no-such.json", 1, "no-such.json"),
        ("sessiond show", 2, "see `sessiond show --help`"),
        ("sessiond list --updated-after yesterday", 2, "7d"),
        ("sessiond frobnicate", 2, "No such command"),
        ("sessiond dump /dev", 1, "/dev"),
        ("sessiond verify /dev", 1, "/dev"),
        ("sessiond verify no-such.jsonl", 1, "No such file"),
    ],
)
def test_a_failure_is_one_line_that_says_what_to_do(
    shell: Shell, line: str, status: int, said: str
) -> None:
    done = shell.run(line)
    assert done.returncode == status
    assert done.stdout == ""
    (complaint,) = done.stderr.splitlines()
    assert complaint.startswith("sessiond: ")
    assert said in complaint
    if status != 2:
        told = shell.run(f"{line} --json")
        assert told.returncode == status
        assert told.stderr.splitlines() == [complaint]
        assert json.loads(told.stdout)["error"]["status"] == status


def test_an_ambiguous_title_names_who_could_be_meant(shell: Shell) -> None:
    twins = [shell.run("sessiond new --title twin").stdout.strip() for _ in range(2)]
    done = shell.run("sessiond show twin")
    assert done.returncode == 4
    assert all(twin in done.stderr for twin in twins)
    named = shell.run("sessiond show TWIN --json").stdout
    assert {match["session_id"] for match in json.loads(named)["error"]["matches"]} == {*twins}


def test_a_session_goes_by_id_by_its_beginning_by_title_and_by_path(shell: Shell) -> None:
    made = shell.json("sessiond new --title 'a long title' --json")["session"]
    for ref in (made["id"], made["id"][:-1], "'a long title'", "'A Long Title'", made["path"]):
        assert shell.json(f"sessiond show {ref} --json")["session"]["id"] == made["id"]


def test_without_a_daemon_one_is_started_unless_that_is_refused(shell: Shell) -> None:
    assert shell.run("sessiond stop").returncode == 0
    refused = shell.run("sessiond list --no-start")
    assert refused.returncode == 3
    assert "sessiond start" in refused.stderr
    assert shell.json("sessiond status --json || true")["running"] is False
    assert "my-session" in shell.run("sessiond list").stdout
    assert shell.json("sessiond status --json")["running"] is True


def test_tail_follows_over_a_restart_and_ends_with_130(shell: Shell) -> None:
    tail = shell.start(
        "tail",
        "my-session",
        "-n",
        "1",
        "-f",
        "--json",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["entry"]["id"] == "entry-2"
        wanted = []
        for number in range(6):
            if number == 3:
                assert shell.run("sessiond restart").returncode == 0
            wanted.append(shell.run(f"sessiond append my-session 'number {number}'").stdout.strip())
        seen = [json.loads(tail.stdout.readline()) for _ in wanted]
        assert [line["entry"]["id"] for line in seen] == wanted
        assert [line["seq"] for line in seen] == list(range(3, 9))
        tail.send_signal(signal.SIGINT)
        assert tail.wait(PATIENCE_SECONDS) == 130
        assert tail.stderr is not None
        assert "Traceback" not in tail.stderr.read()
    finally:
        tail.kill()
        tail.communicate()


def test_tail_goes_on_over_an_archiving_and_ends_with_the_session(shell: Shell) -> None:
    tail = shell.start(
        *("tail", "my-session-id", "-n", "1", "-f", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["entry"]["id"] == "entry-2"
        for line in ("archive my-session-id", "unarchive my-session-id", "append my-session-id hi"):
            assert shell.run(f"sessiond {line}").returncode == 0
        assert json.loads(tail.stdout.readline())["seq"] == 3
        assert shell.run("sessiond delete my-session-id").returncode == 0
        assert tail.wait(PATIENCE_SECONDS) == 4
        assert "error" in json.loads(tail.stdout.readline())
    finally:
        tail.kill()
        tail.communicate()


def test_what_is_in_the_trash_already_is_deleted_again_without_a_complaint(shell: Shell) -> None:
    assert shell.run("sessiond delete my-session-id").returncode == 0
    for _ in range(2):
        done = shell.run("sessiond delete my-session-id")
        assert (done.returncode, done.stdout) == (0, "my-session-id\n")
        assert done.stderr == "no list has my-session-id, which is in the trash\n"
    # Only a whole id names what is in the trash, and what is nowhere is not found.
    for ref in ("my-session", "nobody-knows-it", "x y"):
        done = shell.run(f"sessiond delete '{ref}'")
        assert (done.returncode, done.stdout) == (4, "")
    assert shell.run("sessiond purge --yes my-session-id").returncode == 0
    assert shell.run("sessiond delete my-session-id").returncode == 4


def test_a_session_that_cannot_be_read_is_checked_and_deleted_by_its_id(shell: Shell) -> None:
    home = Path(shell.environment["SESSIOND_HOME"])
    (folder,) = {path.parent for path in home.rglob("*_my-session-id.jsonl")}
    (folder / "2026-01-15T10-30-00-000014_unreadable.jsonl").write_bytes(b"\xff\n")
    for line in ("show unreadable", "repair unreadable"):
        done = shell.run(f"sessiond {line}")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(
            ": see `sessiond verify unreadable`; `sessiond delete unreadable` moves the session to the trash\n"
        )
    done = shell.run("sessiond verify unreadable")
    assert (done.returncode, done.stderr) == (1, "")
    assert "line 1: bad_header" in done.stdout
    done = shell.run("sessiond delete unreadable")
    assert (done.returncode, done.stdout) == (0, "unreadable\n")
    assert done.stderr == "no list has unreadable, which is in the trash\n"
    assert "unreadable" in shell.run("sessiond trash").stdout


def test_a_file_outside_the_profile_that_cannot_be_read_is_forgotten_by_its_id(
    shell: Shell,
) -> None:
    file = shell.folder / "mine.jsonl"
    shell.run(f"sessiond export my-session-id {file}")
    assert shell.run("sessiond delete my-session-id").returncode == 0
    assert shell.run(f"sessiond show {file}").returncode == 0
    assert shell.run("sessiond call session/close session_id=my-session-id").returncode == 0
    file.write_bytes(b"\xff\n")
    done = shell.run("sessiond delete my-session-id")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{file} was not deleted" in done.stderr
    done = shell.run("sessiond forget my-session-id")
    assert (done.returncode, done.stdout) == (0, "my-session-id\n")
    assert file.exists()


def test_what_is_not_utf8_or_nested_too_deep_is_refused(shell: Shell) -> None:
    for line in (
        "printf '\\xff' | sessiond append my-session-id",
        "printf '\\xff' | sessiond import -",
        "sessiond append my-session-id $'\\xff'",
        "sessiond call append session_id=my-session-id message=$'\\xff'",
    ):
        done = shell.run(line)
        assert done.returncode in {1, 2}, line
        assert len(done.stderr.splitlines()) == 1, done.stderr
    (shell.folder / "deep").write_text("[" * 200_000 + "]" * 200_000, "utf-8")
    deep = shell.run("sessiond call append session_id=my-session-id message=@deep")
    assert deep.returncode == 1
    assert len(deep.stderr.splitlines()) == 1


def test_line_ends_of_standard_input_are_kept(shell: Shell) -> None:
    stored = shell.run("printf 'a\\r\\nb\\n' | sessiond append my-session-id").stdout.strip()
    entry = shell.json(f"sessiond call session/entry session_id=my-session-id entry_id={stored}")
    assert entry["entry"]["message"]["content"] == "a\r\nb"


def test_a_reader_that_goes_away_ends_a_command_without_a_word(shell: Shell) -> None:
    # Several: the kernel may count the one write as done during which the reader goes away.
    for _ in range(3):
        assert shell.run("sessiond append my-session", stdin="x" * 300_000).returncode == 0
    done = shell.run(
        "set +o pipefail; sessiond context my-session | head -c 10; echo ${PIPESTATUS[0]}"
    )
    assert done.stdout.endswith("141\n")
    assert done.stderr == ""


def test_what_a_message_holds_cannot_act_on_a_terminal(shell: Shell) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \u202e"
    assert shell.run("sessiond append my-session", stdin=evil).returncode == 0
    for arguments in (
        ["tail"],
        ["show"],
        ["context"],
        ["tree"],
        ["tail", "--json"],
        ["context", "--json"],
    ):
        shown = on_a_terminal(shell, 80, *arguments, "my-session")
        assert "owned" in shown, arguments
        assert "\x1b]" not in shown
        assert "\x9b" not in shown
        assert "\u202e" not in shown


def test_a_value_of_call_is_json_or_text_or_a_file_or_standard_input(shell: Shell) -> None:
    (shell.folder / "title.txt").write_text("from a file", "utf-8")
    made = "sessiond call session/create cwd=/p persist=immediate"
    for words, stdin, title in [
        ("title=plain", "", "plain"),
        ("""title='"2"'""", "", "2"),
        ("title=@title.txt", "", "from a file"),
        ("title=-", "from outside", "from outside"),
        ("title=null", "", None),
    ]:
        done = shell.run(f"{made} {words}", stdin=stdin)
        assert json.loads(done.stdout)["session"]["title"] == title
    whole = """sessiond call session/create '{"cwd":"/p","title":"whole"}'"""
    assert json.loads(shell.run(whole).stdout)["session"]["title"] == "whole"
    twice = shell.run(f"{made} title=a title=b")
    assert twice.returncode == 2
    assert "twice" in twice.stderr


def test_an_append_with_a_key_is_stored_once(shell: Shell) -> None:
    first = shell.json("sessiond append my-session hi --key k --json")
    again = shell.json("sessiond append my-session hi --key k --json")
    assert again["duplicate"] is True
    assert again["entries"] == first["entries"]


def test_completion_offers_sessions_and_starts_no_daemon(shell: Shell) -> None:
    asked = "_SESSIOND_COMPLETE=bash_complete COMP_CWORD=2 COMP_WORDS='sessiond show my' sessiond"
    assert shell.run(asked).stdout.split() == ["plain,my-session-id"]
    methods = "_SESSIOND_COMPLETE=bash_complete COMP_CWORD=2 COMP_WORDS='sessiond call server/st' sessiond"
    assert shell.run(methods).stdout.split() == ["plain,server/stats", "plain,server/stop"]
    shell.run("sessiond stop")
    done = shell.run(asked)
    assert done.stdout.strip() == done.stderr == ""
    assert shell.json("sessiond status --json || true")["running"] is False
