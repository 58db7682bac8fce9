"""The advice that fits a user's mistake, in the words of the command line."""

from __future__ import annotations

import json

import pytest

from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("restore no-such-id", 4, "the trash has no session of this id: see `sessiond trash`"),
        ("restore ab", 2, "'ab' is not the id of a session: see `sessiond trash` for the ids"),
        ("purge --yes no-such-id", 4, "see `sessiond trash` for the ids"),
        ("verify none.jsonl", 1, "check the path and its permissions"),
        ("import none", 1, "check the path and its permissions"),
        ("export my-session none/x.jsonl", 1, "make the folder first, or give another path"),
        ("heads ./message.json", 1, "if the file is no session, give another path"),
        ("fork my-session --id my-session-id", 1, "a session of this id exists: use another id"),
        ("branch my-session --drop", 2, "name the head with --head"),
        ("branch my-session --drop --head main", 2, "main cannot be dropped"),
        ("show no-such", 4, 'no session has "no-such" as id, part of an id, or title: see '),
        (
            "branch my-session no-such",
            4,
            'no entry has this id or label, and no id begins or ends with "no-such": see ',
        ),
        ("fork my-session --at-message 999", 1, "(--at-message): see `sessiond fork --help`"),
        ("fork my-session --keep-messages 1", 2, "--keep-messages needs --entries context"),
        ("merge my-session my-session", 1, "merged with itself: see `sessiond merge --help`"),
        ("export my-session --format json --include x", 2, "'session', 'tags', 'heads', 'labels'"),
        ("export my-session x.jsonl --all-branches", 2, "is for --format markdown"),
        ("export my-session x.jsonl --head main", 1, "sessiond: --head is for documents"),
        ("branch my-session --drop --head other --summary s", 1, "leave --summary out: see"),
        ("new --root .", 1, "the folder is no root: `sessiond roots add` adds it"),
        ("roots add empty", 1, "name it with --kind (native, pi"),
        (
            "state get nowhere nothing",
            4,
            "nowhere has no key nothing: see `sessiond state list nowhere`",
        ),
        (
            "secret get nowhere nothing",
            4,
            "nowhere has no secret nothing: see `sessiond secret list nowhere`",
        ),
    ],
)
def test_the_advice_fits_the_mistake(shell: Shell, line: str, status: int, said: str) -> None:
    (shell.folder / "empty").mkdir()
    done = shell.run(f"sessiond {line}")
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    (complaint,) = done.stderr.splitlines()
    assert complaint.startswith("sessiond: ")
    assert said in complaint
    assert "`sessiond schema`" not in complaint
    if status != 2 and not line.startswith("import "):  # which reports each file
        told = shell.run(f"sessiond {line} --json")
        assert told.returncode == status
        assert complaint.startswith(f"sessiond: {json.loads(told.stdout)['error']['message']}")


def test_a_missing_value_is_no_output_of_a_pipe(shell: Shell) -> None:
    error = shell.json("sessiond state get later value --json || true")["error"]
    assert (error["kind"], error["revision"], error["status"]) == ("key_not_found", 0, 4)
    shell.run("sessiond state set later value null")
    assert shell.run("sessiond state get later value").stdout == "null\n"
