"""The buffers of trees, lists and messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.emacs.editor import TAIL, TREE, Editor, quoted
from tests.interop.emacs.proxy import through_a_proxy
from tests.interop.test_stubs import SESSION, TEXT, contents, new_session, python_client, say

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_the_keys_of_the_tree_move_branch_label_and_show(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "the root", "the leaf")
    with python_client(environment) as client:
        root, leaf = (row.entry["id"] for row in client.entries(SESSION).entries)
        editor.command("sessiond-tree")
        editor.text(TREE, "the root", "the leaf")
        shown = """(progn (jit-lock-fontify-now) (let (shown) (dotimes (at (1- (point-max)))
          (unless (invisible-p (1+ at)) (push (char-after (1+ at)) shown)))
          (concat (nreverse shown))))"""
        assert editor.eval(shown) == "• user: the root\n▶ user: the leaf\n"
        editor.keys("b side RET", on="the root")
        editor.text(TREE, "side")
        assert [(h.name, h.leaf_id) for h in client.heads(SESSION)] == [
            ("main", leaf),
            ("side", root),
        ]
        editor.keys("b side RET", on="the leaf")
        editor.until(
            '(driver-text "*Messages*")', lambda text: "there is a head side already" in text
        )
        editor.keys("l here SPC it SPC is RET", on="the root")
        editor.text(TREE, "[here it is]")
        editor.keys("m", on="the root")
        editor.text(TREE, "▶ user: the root")
        assert client.heads(SESSION)[0].leaf_id == root
        # The tree follows another client, and point stays at its entry, which goes down a line.
        editor.eval('(driver-go-to "the leaf")')
        client.append(SESSION, message={"role": "assistant", "content": "from Python"})
        editor.text(TREE, "from Python")
        assert editor.eval("(sessiond--tree-entry)") == leaf
    editor.keys("RET", on="the leaf")
    shown = editor.text("*sessiond entry*", "the leaf")
    assert f'"id": "{leaf}"' in shown


def test_a_tree_that_is_too_large_shows_what_is_around_the_leaf(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, *(f"text {number}" for number in range(14)))
    editor.eval(
        """(progn (advice-add 'sessiond--tree-draw :around
          (lambda (draw result)
            (if (string-match-p "above" (plist-get result :text)) (funcall draw result)
              (sessiond--tree-failed '(:kind "too_large" :message "Too large") nil)))) nil)"""
    )
    editor.command("sessiond-tree")
    assert "text 2" not in editor.text(TREE, "text 13", "above")


def test_the_list_shows_sessions_and_follows(
    editor: Editor, environment: Mapping[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with python_client(environment) as client:
        client.create(cwd=str(project), session_id=SESSION, title="Ours", persist="immediate")
        client.create(
            cwd="/else", session_id="another-session", title="Theirs", persist="immediate"
        )
        editor.eval(f"(progn (setq default-directory {quoted(f'{project}/')}) (sessiond-list) nil)")
        assert "Theirs" not in editor.text("*sessiond*", "Ours")
        client.create(cwd=str(project), title="Came later", persist="immediate")
        editor.text("*sessiond*", "Came later")
        editor.keys("w")
        editor.text("*sessiond*", "Theirs", "Ours")
        editor.keys("w")
        editor.until('(driver-text "*sessiond*")', lambda text: "Theirs" not in text)
        say(environment, "in the tail")
        editor.keys("RET", on="Ours")
        editor.text(TAIL, "in the tail")
        editor.eval('(progn (switch-to-buffer "*sessiond*") nil)')
        editor.keys("t", on="Ours")
        editor.text(TREE, "in the tail")
        editor.eval('(progn (switch-to-buffer "*sessiond*") nil)')
        editor.keys("+ Made SPC here RET")
        editor.text("*sessiond*", "Made here")
        assert [s.cwd for s in client.list(title="Made here").sessions] == [str(project)]


def test_a_message_buffer_sends_and_cancels(editor: Editor, environment: Mapping[str, str]) -> None:
    new_session(environment)
    editor.command("sessiond-tail")
    editor.until(f"(buffer-local-value 'sessiond--subscription (get-buffer {quoted(TAIL)}))")
    editor.keys("a")
    assert editor.eval("major-mode") == "sessiond-message-mode"
    editor.eval(f"(insert {quoted(TEXT)})")
    editor.keys("C-c C-c")
    editor.text(TAIL, TEXT)
    editor.until('(not (get-buffer "*sessiond message*"))')
    assert contents(environment) == [TEXT]
    editor.command("sessiond-append")
    editor.eval('(insert "not this")')
    editor.keys("C-c C-k")
    assert editor.eval('(get-buffer "*sessiond message*")') is None
    assert contents(environment) == [TEXT]


def test_a_message_that_is_sent_again_after_a_timeout_is_stored_once(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        # The append is stored; then nothing listens until the editor gives up.
        editor.eval("(setq sessiond-timeout 2 sessiond-start-daemon nil)")
        proxy.swallow = b'"duplicate":false'
        proxy.refuse = True
        editor.command("sessiond-append")
        editor.eval('(insert "once")')
        editor.keys("C-c C-c")
        editor.until('(driver-text "*Messages*")', lambda text: "did not answer in time" in text)
        assert proxy.cuts == 1
        proxy.refuse = False
        editor.eval("(setq sessiond-timeout 30)")
        editor.keys("C-c C-c")
        editor.until('(not (get-buffer "*sessiond message*"))')
    assert contents(environment) == ["once"]


def test_a_refused_message_stays_in_its_buffer(editor: Editor) -> None:
    editor.command("sessiond-append", "no-such-session")
    editor.eval('(insert "kept")')
    editor.keys("C-c C-c")
    editor.until('(driver-text "*Messages*")', lambda text: "no session of this id" in text)
    assert editor.eval("(list buffer-read-only (buffer-string))") == [None, "kept"]


def test_a_session_is_chosen_by_its_title(editor: Editor, environment: Mapping[str, str]) -> None:
    with python_client(environment) as client:
        client.create(cwd="/p", session_id=SESSION, title="Choose me", persist="immediate")
        editor.eval('(progn (sessiond-client-shared) (insert "the region") nil)')
        editor.eval(
            '(progn (switch-to-buffer "scratch") (insert "the region")'
            " (transient-mark-mode 1) (set-mark (point-min)) nil)"
        )
        editor.keys("M-x sessiond-append RET Choose TAB RET")
        editor.until('(driver-text "*Messages*")', lambda text: "stored as entry 1" in text)
    assert contents(environment) == ["the region"]
