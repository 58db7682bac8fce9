"""The buffer that follows a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.emacs.editor import TAIL, TREE, Editor, quoted
from tests.interop.test_stubs import SESSION, kill_the_daemon, new_session, python_client, say

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_a_tail_follows_if_point_is_at_the_end(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "first text", "second text")
    editor.command("sessiond-tail")
    text = editor.text(TAIL, "first text", "second text")
    assert re.fullmatch(
        r"1  user  [0-9a-f]{8}\nfirst text\n\n2  user  [0-9a-f]{8}\nsecond text\n\n", text
    )
    editor.eval("(progn (goto-char (point-max)) nil)")
    with python_client(environment) as client:
        root = client.entries(SESSION).entries[0].entry["id"]
        client.append(
            SESSION, head="side", parent_id=root, message={"role": "user", "content": "third text"}
        )
    assert re.search(
        r"^3  user  \w{8}  \[side\]\nthird", editor.text(TAIL, "third text"), re.MULTILINE
    )
    assert editor.eval(f"(with-current-buffer {quoted(TAIL)} (eobp))") is True
    assert editor.eval("(= (window-point) (point-max))") is True
    editor.keys("p p")
    before = editor.eval("(point)")
    say(environment, "fourth text")
    editor.text(TAIL, "fourth text")
    assert editor.eval("(list (point) (window-point))") == [before, before]
    # A window that is not selected follows, too.
    editor.eval("(progn (goto-char (point-max)) (select-window (split-window)) nil)")
    editor.eval('(progn (switch-to-buffer "*scratch*") nil)')
    say(environment, "fifth text")
    editor.text(TAIL, "fifth text")
    window = f"(get-buffer-window {quoted(TAIL)})"
    assert editor.eval(f"(with-selected-window {window} (eobp))") is True


def test_a_tail_keeps_a_bounded_number_of_entries(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, *(f"text {number}" for number in range(8)))
    editor.eval("(setq sessiond-tail-entries-begin 4 sessiond-tail-entries-max 5)")
    editor.command("sessiond-tail")
    assert "text 3" not in editor.text(TAIL, "text 4", "text 7")
    say(environment, "text 8", "text 9")
    text = editor.text(TAIL, "text 9")
    assert re.findall(r"text \d", text) == [f"text {number}" for number in range(5, 10)]
    assert text.startswith("6  user")


def test_a_tail_begins_anew_with_a_replaced_file(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "old one")
    (path,) = Path(environment["SESSIOND_HOME"]).rglob(f"*{SESSION}.jsonl")
    shorter = path.read_bytes().replace(b"old one", b"new one")
    shorter = re.sub(rb'"id":"[0-9a-f]{32}"', b'"id":"another-entry"', shorter)
    say(environment, "old two")
    editor.command("sessiond-tail")
    editor.text(TAIL, "old one", "old two")
    path.with_suffix(".new").write_bytes(shorter)
    path.with_suffix(".new").rename(path)
    kill_the_daemon(environment)
    assert "old" not in editor.text(TAIL, "new one")


def test_a_deleted_session_ends_its_tail(editor: Editor, environment: Mapping[str, str]) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.eval("(progn (sessiond-list t) nil)")
    editor.text("*sessiond*", "one")
    editor.text(TAIL, "one")
    with python_client(environment) as client:
        client.delete(SESSION)
    state = f"(buffer-local-value 'mode-line-process (get-buffer {quoted(TAIL)}))"
    editor.until(state, lambda value: value == ":deleted")
    editor.until('(driver-text "*sessiond*")', lambda text: "one" not in text)
    assert editor.eval("(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))") == 0


def test_a_killed_buffer_ends_its_subscription(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.text(TAIL, "one")
    editor.command("sessiond-tree")
    editor.text(TREE, "one")
    feeds = "(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))"
    assert editor.eval(feeds) == 1
    editor.eval(f"(progn (kill-buffer {quoted(TAIL)}) nil)")
    say(environment, "two")
    editor.text(TREE, "two")
    editor.eval(f"(progn (kill-buffer {quoted(TREE)}) nil)")
    assert editor.eval(feeds) == 0
