"""Commands whose standard output takes nothing end with a word and a status, and without a traceback."""

from __future__ import annotations

import pytest

from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--version",
        "list",
        "list --json",
        "list --jsonx",
        "status",
        "status --json",
        "config",
        "show my-session",
        "show nosuch --json",
        "help list",
        "schema",
        "export my-session",
    ],
)
def test_a_full_device_is_told_once(shell: Shell, line: str) -> None:
    done = shell.run(f"sessiond {line} >/dev/full")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    if "nosuch" in line:
        assert (done.returncode, "nosuch" in done.stderr) == (4, True)
    elif "jsonx" in line:
        assert done.returncode == 2
    else:
        assert (done.returncode, "No space left on device" in done.stderr) == (1, True)


def test_an_option_without_its_value_names_the_help_of_its_command(shell: Shell) -> None:
    for line in ("list --archived", "search --role", "roots --kind", "list --limit x"):
        done = shell.run(f"sessiond {line}")
        assert done.returncode == 2
        assert f"see `sessiond {line.split()[0]} --help`" in done.stderr, line


def test_a_configuration_that_is_not_there_is_made_or_left_out(shell: Shell) -> None:
    for line in ("config", "list", "doctor"):
        done = shell.run(f"sessiond {line} --config /nonexistent.toml")
        assert "correct it" not in done.stderr + done.stdout
        assert "make the file, or leave --config and SESSIOND_CONFIG out" in (
            done.stderr + done.stdout
        ), line
