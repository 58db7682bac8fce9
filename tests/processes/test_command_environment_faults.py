"""The messages of commands if a disk, a folder, a socket or a shell is not as it should be."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.kit.other_user import OTHER_UID, listening_as
from tests.processes.conftest import Mount
from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow

SAMPLES: Final = Path(__file__).parents[1] / "samples"
MOMENT: Final = "2026-01-01T09:00:00.000Z"


def test_the_doctor_sees_a_mount_that_is_read_only_and_leaves_the_catalog_alone(
    shell: Shell, mounted: Mount, tmp_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=8m")
    home = f"--home {disk}/data"
    assert shell.run(f"sessiond new {home}; sessiond stop {home}").returncode == 0
    mounted(disk, "remount,ro,size=8m")
    done = shell.run(f"sessiond doctor --json {home}")
    checks = json.loads(done.stdout)["checks"]
    mounted(disk, "remount,rw,size=8m")
    assert done.returncode == 1
    assert any("mounted read-only" in check["what"] for check in checks)
    assert not any("rm " in check.get("next", "") for check in checks)


def test_a_session_on_a_disk_that_is_mounted_read_only_is_shown_and_copied(
    shell: Shell, mounted: Mount, tmp_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=8m")
    path = disk / "pi.jsonl"
    path.write_bytes((SAMPLES / "pi" / "pi.jsonl").read_bytes())
    mounted(disk, "remount,ro,size=8m")
    assert shell.run(f"sessiond --profile archive roots add --kind pi {disk}").returncode == 0
    rows = json.loads(shell.run("sessiond --profile archive list --json").stdout)["sessions"]
    (session_id,) = (row["id"] for row in rows if row["path"] == str(path))
    for named in (path, session_id):
        for line in ("show", "tree", "tail -n 2", "context", "turns", "export"):
            done = shell.run(f"sessiond --profile archive {line} {named}")
            assert done.returncode == 0, line
            assert done.stdout, line
        refused = shell.run(f"sessiond --profile archive append {named} hi")
        assert refused.returncode == 1
        assert "may not write to the session file" in refused.stderr
    assert shell.run(f"sessiond --profile archive fork {session_id}").returncode == 0
    assert shell.run("sessiond stop --profile archive").returncode == 0


def test_a_fresh_home_on_a_full_disk_is_served_and_told_of(
    shell: Shell, mounted: Mount, tmp_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=64k")
    assert "No space" in shell.run(f"cat /dev/zero >{disk}/filler || true").stderr
    listed = shell.run(f"sessiond list --home {disk}/data")
    assert (listed.returncode, listed.stdout) == (0, "")
    made = shell.run(f"sessiond new --title x --home {disk}/data")
    assert made.returncode == 1
    assert "No space left on device" in made.stderr
    assert "it logged no reason" not in listed.stderr + made.stderr
    assert shell.run(f"sessiond stop --home {disk}/data").returncode == 0


def test_a_socket_of_another_user_is_named_as_that(
    shell: Shell, absent: Callable[[str], NoReturn]
) -> None:
    if os.geteuid():
        absent("only root can listen as another user")
    path = shell.folder / "theirs.sock"
    with listening_as(OTHER_UID, path) as listener:
        # The owner of the file does not count: anyone may put a socket of ours there.
        os.chown(path, 0, 0)
        for line in ("list", "status", "call server/ping"):
            done = shell.run(f"sessiond {line} --socket theirs.sock")
            assert done.returncode == 3, line
            assert "the socket of another user (uid 65534)" in done.stderr, line
            assert listener.heard() == 0, line


def test_a_dead_socket_of_another_user_is_left_alone(
    shell: Shell, absent: Callable[[str], NoReturn]
) -> None:
    if os.geteuid():
        absent("only root can give a socket away")
    path = shell.folder / "dead.sock"
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(path))
        os.chown(path, OTHER_UID, -1)
    done = shell.run("sessiond list --profile other --socket dead.sock")
    assert done.returncode != 0
    assert f"{path} belongs to another user; it was left alone" in done.stderr
    assert path.is_socket()


@pytest.mark.parametrize("size", [100, 200, 260])
def test_a_socket_name_that_is_too_long_is_said_to_be(shell: Shell, size: int) -> None:
    for line in ("list --no-start", "status", "start"):
        done = shell.run(f"sessiond {line} --socket {'x' * size}.sock")
        assert done.returncode != 0
        assert "File name too long" in done.stderr, line
        assert "None" not in done.stderr, line
        assert "Traceback" not in done.stderr, line


def test_a_working_folder_that_is_gone_is_named(shell: Shell) -> None:
    for line in ("new", "list --here", "show x.jsonl", "import x.jsonl"):
        done = shell.run(f'mkdir -p gone; cd gone; rmdir "$PWD"; sessiond {line} 2>&1 || true')
        assert (
            "the folder that this command was started in does not exist any more: change to"
            in done.stdout
        ), line


def test_an_export_to_a_folder_that_is_not_there_says_so(shell: Shell) -> None:
    done = shell.run("sessiond export my-session none/x.jsonl")
    assert done.returncode == 1
    assert f"the folder {shell.folder}/none is not there" in done.stderr
    assert "make the folder first" in done.stderr


def test_a_title_is_no_id_for_a_purge(shell: Shell) -> None:
    for line in ("purge 'my session' --yes", "purge 'my session'"):
        done = shell.run(f"sessiond {line}")
        assert done.returncode == 2
        assert "'my session' is not the id of a session" in done.stderr
    named = shell.run("sessiond call session/get session_id=x")
    assert "Expected 8 to 128 characters of A-Z a-z 0-9 _ -" in named.stderr


def test_a_drawing_whose_reader_goes_away_ends_with_141(shell: Shell) -> None:
    header = {"type": "session_header", "version": 1, "id": "long-one", "timestamp": MOMENT}
    entry = {"type": "custom", "custom_type": "x", "parent_id": None, "timestamp": MOMENT}
    lines = [json.dumps({**header, "cwd": "/p"})]
    lines += [json.dumps({**entry, "id": f"x{number}", "data": 1}) for number in range(9_000)]
    (shell.folder / "long.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    one = shell.run("sessiond import long.jsonl").stdout.strip()
    commands = (f"sessiond tree {one}", f"sessiond tail {one} -n 9000")
    for line in (*commands, *(f"env PYTHONUNBUFFERED=1 {command}" for command in commands)):
        done = shell.run(f"set +o pipefail; {line} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}")
        assert done.stdout == "141\n", line
        assert done.stderr == "", line


@pytest.mark.parametrize("words", ["''", "' '", "'!!!'", "'\"\"'"])
def test_a_search_for_no_word_is_wrong_usage(shell: Shell, words: str) -> None:
    done = shell.run(f"sessiond search {words}")
    assert done.returncode == 2
    assert "give a word to search for: see `sessiond search --help`" in done.stderr


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("branch my-session no-such-entry", "see `sessiond tail my-session`"),
        ("append my-session hi --head nobody", "see `sessiond heads my-session`"),
        ("append my-session hi --expect-leaf entry-1", "(`sessiond tail my-session`)"),
        ("append 'put away' hi", "`sessiond unarchive 'put away'`"),
        ("show no-such-session", "`sessiond list --archived any --drafts`"),
        ("call session/get", "see `sessiond schema`"),
        ("call append session_id=my-session-id entry={}", "see `sessiond schema`"),
        ("call session/entry session_id=my-session-id entry_id=no", "`sessiond list`"),
    ],
)
def test_an_advice_can_be_pasted_and_names_no_page(shell: Shell, line: str, advice: str) -> None:
    shell.run("sessiond new --title 'put away'; sessiond archive 'put away'")
    done = shell.run(f"sessiond {line}")
    assert done.returncode != 0
    assert advice in done.stderr
    assert "SESSION" not in done.stderr
    assert "protocol.md" not in done.stderr


def test_a_configuration_shows_its_values_as_they_are_written(shell: Shell) -> None:
    rows = [line.split("\t") for line in shell.run("sessiond config").stdout.splitlines()[1:]]
    assert ["compaction.enabled", "true", "default"] in rows
    assert "True" not in str(rows)


def test_one_token_is_one_token(shell: Shell) -> None:
    one = shell.run("sessiond new").stdout.strip()
    shell.run(f"sessiond append {one} x")
    assert "1 message, about 1 token\n" in shell.run(f"sessiond context {one}").stderr


def test_a_dry_run_of_a_fork_says_what_the_copy_would_be(shell: Shell) -> None:
    done = shell.run("sessiond fork my-session --at entry-1 --title copy --dry-run")
    assert "1 entry, 1 message" in done.stdout
    assert "copy" in done.stdout
    assert "Why is it late?" in done.stdout
    assert "nothing was stored" in done.stderr
    assert len(shell.json("sessiond list --json")["sessions"]) == 1


def test_an_import_of_what_is_there_says_so(shell: Shell) -> None:
    first = shell.run("sessiond import session.jsonl")
    assert first.returncode == 0
    assert "my-session-id has an equal beginning" in first.stderr
    again = shell.run("sessiond import session.jsonl")
    assert first.stdout.strip() in again.stderr
    header = {"type": "session", "version": 3, "id": "0197c1d2", "timestamp": MOMENT, "cwd": "/old"}
    entry: dict[str, Any] = {
        "type": "message",
        "id": "a1b2c3d4",
        "parentId": None,
        "timestamp": MOMENT,
    }
    entry["message"] = {"role": "user", "content": "hi"}
    lines = f"{json.dumps(header)}\n{json.dumps(entry)}\n"
    (shell.folder / "pi.jsonl").write_text(lines, "utf-8")
    assert shell.run("sessiond import pi.jsonl").stderr == ""
    assert "has an equal beginning" in shell.run("sessiond import pi.jsonl").stderr


def test_the_list_of_methods_as_json_is_json(shell: Shell) -> None:
    names = shell.json("sessiond call --list --json")["methods"]
    assert "session/append" in names
    assert names == shell.run("sessiond call --list").stdout.split()
