"""`sessiond doctor` finds what is wrong, says what to do, and touches nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.advice import flaws_of
from tests.kit.link import Link
from tests.kit.long_paths import BEYOND_SQLITE, HOME_BYTES_MAX, deep
from tests.kit.opencode import database
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND
from tests.processes.harness.shell import Shell, user_shell

pytestmark = pytest.mark.slow


IN_THE_PROFILE: Final = """
cd "$SESSIOND_HOME/profiles/default"; umask 077
file=$(echo sessions/*_my-session-id.jsonl); twin=sessions/2027-01-01T00-00-00-000000_my
"""
DAMAGES: Final = {
    "open_folder": ("chmod 755 trash", "chmod 700 trash"),
    "open_file": ('chmod 644 "$file"', 'chmod 600 "$file"'),
    "bad_line": ('cp "$file" ~/kept; echo "no entry" >>"$file"', 'cat ~/kept >"$file"'),
    "stray_file": ("echo nobody >sessions/stray.jsonl", "rm sessions/stray.jsonl"),
    "twin": ('cp "$file" $twin-session-id.jsonl', "rm $twin-session-id.jsonl"),
    "draft_beside": ('head -n 1 "$file" >pending/my-session-id.jsonl', "rm pending/*"),
    "folder_for_a_file": ("mkdir $twin-folder.jsonl", "rmdir $twin-folder.jsonl"),
    "open_key": (
        "printf %s secret | sessiond secret set api token; chmod 640 ~/.config/sessiond/keys/*.key",
        "chmod 600 ~/.config/sessiond/keys/*.key",
    ),
}
"""Scripts that do harm in the profile, and scripts that mend it."""


def complaints(shell: Shell, *flags: str) -> list[dict[str, Any]]:
    """Return the doctor's complaints; require an exit status that tells whether there are any."""
    done = shell.run(f"sessiond doctor --json {' '.join(flags)}")
    told = json.loads(done.stdout)
    wrong = [check for check in told["checks"] if not check["ok"]]
    assert done.returncode == (1 if wrong else 0)
    assert told["ok"] is not bool(wrong)
    assert all(check["next"] for check in wrong)
    assert [flaw for check in told["checks"] for flaw in flaws_of(check.get("next") or "")] == []
    return wrong


@pytest.mark.parametrize(
    ("damage", "check", "said"),
    [
        ("open_folder", "folders", "trash is open to other users (mode 0755)"),
        ("open_file", "files", "is open to other users (mode 0644)"),
        ("bad_line", "files", "1 problem, the first in line 4"),
        ("stray_file", "files", "stray.jsonl"),
        ("twin", "files", "is the session of that id"),
        ("draft_beside", "files", "pending"),
        ("folder_for_a_file", "files", "folder"),
        ("open_key", "key", "other users (mode 0640)"),
    ],
)
def test_one_thing_that_is_wrong_is_one_finding(
    shell: Shell, damage: str, check: str, said: str
) -> None:
    assert complaints(shell) == []
    harm, mend = DAMAGES[damage]
    shell.output(IN_THE_PROFILE + harm)
    seen = {path: path.read_bytes() for path in shell.profile.rglob("*.jsonl") if path.is_file()}
    (wrong,) = complaints(shell)
    assert wrong["check"] == check
    assert said in wrong["what"]
    assert {
        path: path.read_bytes() for path in shell.profile.rglob("*.jsonl") if path.is_file()
    } == seen
    shell.output(IN_THE_PROFILE + mend)
    assert complaints(shell) == []


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory, sessiond_program: str) -> Iterator[Shell]:
    """Make a user's shell in a home whose path has a space."""
    home = tmp_path_factory.mktemp("home") / "a b"
    home.mkdir()
    with user_shell(home, sessiond_program) as shell:
        yield shell


@pytest.mark.parametrize("damage", ["open_folder", "open_file", "bad_line", "twin"])
def test_the_commands_that_a_finding_names_mend_it(spaced: Shell, damage: str) -> None:
    spaced.begin()
    spaced.output(IN_THE_PROFILE + DAMAGES[damage][0])
    (wrong,) = complaints(spaced)
    for command in re.findall(r"`(.*?)`", wrong["next"]):
        # A repair tells first what it would do, and a check of a damaged file fails.
        apply = " --apply" if "repair" in command else ""
        done = spaced.run(command + apply)
        assert done.returncode == 0 or "verify" in command, done
    if damage == "twin":
        assert wrong["next"].endswith("; then move it away")
        spaced.output(IN_THE_PROFILE + DAMAGES[damage][1])
    assert complaints(spaced) == []


def test_what_a_repair_leaves_without_a_parent_is_told_and_is_no_complaint(shell: Shell) -> None:
    (path,) = shell.profile.glob("sessions/*.jsonl")
    lines = path.read_bytes().split(b"\n")
    assert len(lines) == 4, "a header and two entries"
    path.write_bytes(b"\n".join([lines[0], b"no entry", *lines[2:]]))
    (wrong,) = complaints(shell)
    assert "sessiond repair" in wrong["next"]
    shell.run("sessiond repair my-session --apply")
    assert complaints(shell) == []
    told = json.loads(shell.run("sessiond doctor --json").stdout)["checks"]
    assert [check["what"] for check in told if "no repair is needed" in check["what"]] != []


def test_a_limit_of_files_that_no_daemon_can_live_with_is_a_finding(shell: Shell) -> None:
    (limits,) = told(shell, "limits")
    assert limits["ok"]
    done = shell.run(f"ulimit -n 16; {SESSIOND} doctor --json")
    wrong = [check for check in json.loads(done.stdout)["checks"] if not check["ok"]]
    assert [(one["check"], one["next"]) for one in wrong] == [("limits", "raise ulimit -n")]
    assert "ulimit -n is 16" in wrong[0]["what"]


def told(shell: Shell, check: str) -> list[dict[str, Any]]:
    """Return the results of one check, good or bad."""
    checks = json.loads(shell.run("sessiond doctor --json || true").stdout)["checks"]
    return [one for one in checks if one["check"] == check]


def test_what_crashes_and_deletes_left_is_named_and_is_no_complaint(shell: Shell) -> None:
    assert (told(shell, "remains"), told(shell, "locks"), told(shell, "trash")) == ([], [], [])
    shell.run("sessiond new --id my-second-one --title second; sessiond delete my-second-one")
    shell.run("sessiond stop")
    root = shell.profile
    (path,) = root.glob("sessions/*.jsonl")
    left = {
        path.with_name(f".sessiond-{'0' * 32}.new"): b"half",
        path.with_name(path.name + ".torn-2026-01-01T00-00-00-000000"): b"torn",
        root / "trash" / "notes.txt": b"nobody's",
        root / "trash" / path.name.replace("my-session-id", "my-third-one"): b"garbage\n",
        root / "pending" / "my-fourth-one.jsonl": path.read_bytes().split(b"\n")[0] + b"\n",
        root.parents[1] / "locks" / "1-1": b"pid 2147483647\nhost %s\nsince now\n"
        % os.uname().nodename.encode(),
        root.parents[1] / "locks" / "1-2": b"no record",
    }
    for one, content in left.items():
        one.touch(0o600)
        one.write_bytes(content)
    assert complaints(shell) == []
    remains = [one["what"] for one in told(shell, "remains")]
    assert ["half written" in remains[0], "torn end" in remains[1]] == [True, True]
    (locks,) = told(shell, "locks")
    assert "2 records" in locks["what"]
    deleted, bad, strange = told(shell, "trash")
    assert "2 files of 2 sessions" in deleted["what"]
    assert "my-third-one" in bad["what"]
    assert "notes.txt" in strange["what"]
    said = " ".join(one["what"] for one in told(shell, "catalog"))
    assert "1 file not listed yet" in said
    assert all(one.read_bytes() == content for one, content in left.items())


def test_a_damaged_index_of_words_is_named(shell: Shell) -> None:
    shell.run("sessiond search something; sessiond stop")
    path = shell.profile / "search.sqlite"
    path.write_bytes(b"no database" * 1000)
    (wrong,) = complaints(shell)
    assert (wrong["check"], "rm " in wrong["next"]) == ("search", True)
    path.unlink()
    assert complaints(shell) == []


@pytest.mark.parametrize("name", ["catalog", "search"])
def test_a_damage_whose_words_are_no_text_is_named(shell: Shell, name: str) -> None:
    shell.run("sessiond search something; sessiond stop")
    path = shell.profile / f"{name}.sqlite"
    # A name in a damaged statement, which SQLite repeats.
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE ", b"CREATE \xff\xfe\xfd\xfc\xfb "))
    (wrong,) = complaints(shell)
    assert (wrong["check"], "rm " in wrong["next"]) == (name, True)
    path.unlink()
    assert complaints(shell) == []


def test_a_session_of_a_database_is_not_missing(shell: Shell, tmp_path: Path) -> None:
    database(tmp_path / "opencode.db")
    shell.run(f"sessiond roots add {tmp_path}; sessiond list; sessiond stop")
    assert not any("missing" in one["what"] for one in told(shell, "catalog"))
    (tmp_path / "opencode.db").unlink()
    assert any("1 listed file missing" in one["what"] for one in told(shell, "catalog"))


def test_a_header_of_another_session_is_told_and_hinders_nobody(shell: Shell) -> None:
    shell.run("sessiond stop")
    (path,) = shell.profile.glob("sessions/*.jsonl")
    before = path.read_bytes()
    path.write_bytes(before.replace(b"my-session-id", b"your-session-id", 1))
    assert complaints(shell) == []
    assert any("another session" in one["what"] for one in told(shell, "files"))
    path.write_bytes(before)


def test_a_damaged_catalog_and_a_torn_line_are_seen_while_no_daemon_runs(shell: Shell) -> None:
    shell.run("sessiond stop")
    (shell.profile / "catalog.sqlite").write_bytes(b"no database" * 1000)
    (path,) = shell.profile.glob("sessions/*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"type":"mess')
    wrong = complaints(shell)
    assert [check["check"] for check in wrong] == ["catalog", "files"]
    assert "rm " in wrong[0]["next"]
    assert "half a line" in wrong[1]["what"]
    assert shell.json("sessiond status --json || true")["running"] is False
    (shell.profile / "catalog.sqlite").unlink()


def test_what_stands_where_the_socket_belongs_is_named(shell: Shell) -> None:
    (shell.folder / "precious").write_text("no socket", "utf-8")
    kinds = {check["check"] for check in complaints(shell, "--socket precious")}
    assert "socket" in kinds
    assert (shell.folder / "precious").read_text("utf-8") == "no socket"


def test_a_daemon_that_gives_another_version_or_folder_is_named(
    shell: Shell, socket_path: Path
) -> None:
    other = shell.start("serve", "--profile", "other", "--socket", str(socket_path))
    try:
        # It waits until the daemon listens.
        Link(socket_path, alive=lambda: None).close()
        wrong = complaints(shell, f"--socket {socket_path}")
        assert [check["check"] for check in wrong] == ["daemon"]
        assert "profiles/other" in wrong[0]["what"]
    finally:
        other.terminate()
        assert other.wait(PATIENCE_SECONDS) == 0


def test_a_bad_configuration_is_named(shell: Shell) -> None:
    (shell.folder / "bad.toml").write_text("no_such_key = 1\n", "utf-8")
    (wrong,) = complaints(shell, "--config bad.toml")
    assert wrong["check"] == "config"
    assert "no_such_key" in wrong["what"]


def test_where_no_session_was_ever_made_all_is_well(shell: Shell) -> None:
    found = shell.json("SESSIOND_HOME=~/never/made sessiond doctor --json")
    facts = {check["check"]: check["what"] for check in found["checks"]}
    assert found["ok"] is True
    assert facts["folders"].endswith("never/made/profiles/default does not exist yet")
    assert "MiB are free" in facts["disk"]
    assert shell.run("test -e ~/never").returncode == 1


@pytest.mark.parametrize(
    ("size", "wrong", "said"),
    [
        (BEYOND_SQLITE, ["catalog", "search"], "SQLite opens paths of at most 504 bytes"),
        (HOME_BYTES_MAX + 1, ["folders", "catalog", "search"], "leave no room for names in it"),
    ],
)
def test_a_home_with_a_long_path_is_told(
    shell: Shell, tmp_path: Path, size: int, wrong: list[str], said: str
) -> None:
    found = complaints(shell, "--home", str(deep(tmp_path, size)))
    assert [one["check"] for one in found] == wrong
    assert said in found[0]["what"]
    assert all("shorter path" in one["next"] for one in found)


def test_a_check_leaves_no_file_beside_the_databases(shell: Shell) -> None:
    shell.run("sessiond search something; sessiond stop")
    before = sorted(path.name for path in shell.profile.iterdir())
    assert {"catalog.sqlite", "search.sqlite"} <= {*before}
    assert complaints(shell) == []
    assert sorted(path.name for path in shell.profile.iterdir()) == before
