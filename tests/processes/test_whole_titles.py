"""The sessions that a command may destroy or hide: named by ids and whole titles, by no part of a title."""

from __future__ import annotations

import pytest

from tests.processes.harness.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.search]


@pytest.mark.parametrize(
    "line",
    [
        "delete --yes {}",
        "archive {}",
        "unarchive {}",
        "rename {} renamed",
        "forget {}",
        "repair {} --apply",
    ],
)
def test_a_part_of_a_title_names_no_session_that_a_command_takes_away(
    shell: Shell, line: str
) -> None:
    made = shell.run("sessiond new --title 'Repair the Old Clock'").stdout.strip()
    assert shell.run("sessiond show 'old clock'").returncode == 0
    done = shell.run(f"sessiond {line.format('old')}")
    assert done.returncode == 4
    (said,) = done.stderr.splitlines()
    assert said == (
        'sessiond: "old" is only a part of the title "Repair the Old Clock": '
        f"give the whole title, or the id {made}"
    )
    error = shell.json(f"sessiond {line.format('old')} --json || true")["error"]
    assert (error["kind"], error["matches"][0]["session_id"]) == ("session_not_found", made)
    listed = shell.json(f"sessiond show {made} --json")["session"]
    assert (listed["title"], listed["archived"]) == ("Repair the Old Clock", False)


@pytest.mark.parametrize("ref", ["'repair the old CLOCK'", "{id}", "{id:.13}", "{end}", "{path}"])
def test_a_whole_title_an_id_and_a_path_name_a_session_to_delete(shell: Shell, ref: str) -> None:
    made = shell.json("sessiond new --title 'Repair the Old Clock' --json")["session"]
    named = {"id": made["id"], "end": made["id"][-8:], "path": made["path"]}
    done = shell.run(f"sessiond delete {ref.format(**named)}")
    assert (done.returncode, done.stdout.strip()) == (0, made["id"]), done.stderr
