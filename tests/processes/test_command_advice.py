"""The advice that fits a user's mistake, in the words of the command line, and that helps when it is followed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import pytest

import sessiond_client
from tests.kit.advice import advised
from tests.kit.agent_roots import claude_talk
from tests.processes.harness.shell import SESSION_ID, Shell

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
            "roots add /nonexistent",
            1,
            "/nonexistent cannot be listed: No such file or directory: see",
        ),
        ("forget my-session", 1, "call `sessiond delete my-session` for this one: see"),
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


class Story(NamedTuple):
    """A command that fails, and what its advice does: each command of the advice runs, in order."""

    line: str
    shows: str = ""
    """Text that an advised command prints; "" if the line passes once the advised commands have run."""
    before: str = ""
    fill: Mapping[str, str] = {}
    """Words that a user writes in place of those in capitals."""


PATH: Final = (
    "sessiond show my-session-id --json | grep -o '/[^\"]*_my-session-id.jsonl' | head -n 1"
)
TRASHED: Final = "sessiond new --id my-old-session; sessiond delete my-old-session"
LONG: Final = "for n in 1 2 3; do printf %90000s | tr ' ' x | sessiond append my-session; done"
OTHER: Final = {"ENTRY": "entry-2", "NAME": "other"}
STORIES: Final = (
    Story("append my-session --entry '{\"type\":1}'", "--entry JSON"),
    Story("label my-session nope x", "entry-2"),
    Story("append my-session hi --head other", fill=OTHER),
    Story("append my-session hi --expect-leaf entry-1", "entry-2"),
    Story("append my-session hi", before="sessiond archive my-session"),
    Story("append my-session hi", "bad_line", f"echo 'no entry' >>$({PATH})"),
    Story("call nothing", "session/get"),
    Story("call session/get session_id=1", "session/get"),
    Story("show no-such", "my-session-id"),
    Story("restore no-such-id", "my-old-session", TRASHED),
    Story("restore ab", "my-old-session", TRASHED),
    Story("purge --yes no-such-id", "my-old-session", TRASHED),
    Story("purge --yes my-session-id"),
    Story("new --id my-session-id", "my-session-id"),
    Story("compact my-session --plan plan-1 --summary s", "Goal", LONG),
    Story("state get settings nothing", "theme", "sessiond state set settings theme 1"),
    Story("secret get api nothing", "token", "printf x | sessiond secret set api token"),
)


def heeded(shell: Shell, said: str, fill: Mapping[str, str] = {}) -> str:
    """Run each command that a text advises; return what they print."""
    told = []
    for command in advised(said):
        done = shell.run(re.sub(r"\b[A-Z]{2,}\b", lambda word: fill[word[0]], command))
        # A check of a file that is damaged says so.
        assert done.returncode == 0 or command.startswith("sessiond verify"), done
        told.append(done.stdout)
    assert told, said
    return "".join(told)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.line)
def test_an_advice_helps_who_follows_it(shell: Shell, story: Story) -> None:
    shell.run(story.before)
    done = shell.run(f"sessiond {story.line}")
    assert done.returncode != 0
    told = heeded(shell, done.stderr, story.fill)
    if story.shows:
        assert story.shows in told
    else:
        shell.output(f"sessiond {story.line}")


def test_the_repair_that_an_advice_names_says_how_it_is_done(shell: Shell) -> None:
    shell.output(f"echo 'no entry' >>$({PATH})")
    refused = shell.run("sessiond append my-session hi")
    assert heeded(shell, refused.stderr).rstrip().endswith("do it with --apply")
    shell.output(f"{advised(refused.stderr)[-1]} --apply")
    shell.output("sessiond append my-session hi")


def test_a_head_that_a_lease_holds_has_a_way_round_it(shell: Shell) -> None:
    with sessiond_client.connect_blocking(shell.output("sessiond sockname")) as client:
        client.acquire(SESSION_ID, 60_000)
        refused = shell.run("sessiond append my-session hi")
        heeded(shell, refused.stderr, OTHER)
        shell.output("sessiond append my-session hi --head other")


def test_a_file_that_is_only_read_has_a_copy_that_is_written(shell: Shell) -> None:
    (shell.folder / "claude.jsonl").write_bytes(claude_talk(1))
    refused = shell.run("sessiond append ./claude.jsonl hi")
    for made in heeded(shell, refused.stderr, {"FILE": "./claude.jsonl"}).split():
        shell.output(f"sessiond append {made} hi")


def test_an_advice_is_about_the_daemon_that_the_command_line_names(shell: Shell) -> None:
    place = "--home 'a b' --profile second"
    missed = shell.run(f"sessiond list --no-start {place}")
    assert missed.returncode == 3
    try:
        heeded(shell, missed.stderr)
        nothing = shell.run(f"sessiond {place} list")
        (first, *_) = re.findall(r"^  (sessiond new .*)$", nothing.stderr, re.MULTILINE)
        made = shell.output(first)
        before = shell.run(f"sessiond {place} show no-such")
        assert heeded(shell, before.stderr).split()[0] == made
        behind = shell.run(f"sessiond show no-such --json {place}")
        assert heeded(shell, json.loads(behind.stdout)["error"]["next"]).split()[0] == made
        shell.output(f"sessiond archive {made} {place}")
        heeded(shell, shell.run(f"sessiond append {made} hi {place}").stderr)
        shell.output(f"sessiond append {made} hi {place}")
        # A command that asks no daemon takes no such flags.
        (shell.folder / "x y.jsonl").write_text("no session\n")
        heeded(shell, shell.run(f"sessiond import 'x y.jsonl' {place}").stderr)
    finally:
        shell.output(f"sessiond stop {place}")
