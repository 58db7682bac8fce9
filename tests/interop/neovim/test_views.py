"""Trees, lists, the status line, completion and help."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.neovim.acts import SESSION, say
from tests.interop.neovim.editor import PLUGIN, Editor, editing
from tests.interop.test_stubs import kill_the_daemon, python_client, said
from tests.kit.line_proxy import line_proxy
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


def drawn(editor: Editor) -> list[str]:
    return editor.lines(f"sessiond://tree/{SESSION}")


def test_a_tree_is_drawn_and_follows(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tree {session}")
    editor.until(
        lambda: drawn(editor) == ["• user: Why is it late?", "▶ assistant: The clock."],
        lambda: f"{drawn(editor)} {editor.messages()}",
    )
    say(environment, "And now?")
    editor.until(lambda: drawn(editor)[-1] == "▶ user: And now?", lambda: str(drawn(editor)))
    kill_the_daemon(environment)
    say(environment, "Still there?")
    editor.until(lambda: drawn(editor)[-1] == "▶ user: Still there?", lambda: str(drawn(editor)))


def test_the_keys_of_a_tree_move_branch_label_and_show(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tree {session}")
    editor.until(lambda: len(drawn(editor)) == 2)
    editor.type("ggm")
    editor.until(lambda: drawn(editor)[0].startswith("▶"), lambda: str(drawn(editor)))
    editor.type("G")
    editor.until(lambda: editor.cursor() == 2)
    say(environment, "Another way.")
    editor.until(lambda: len(drawn(editor)) == 3)
    assert "The clock." in drawn(editor)[2]
    assert editor.cursor() == 3
    editor.type("bbranchy<CR>")
    editor.until(lambda: any("◀ branchy" in line for line in drawn(editor)), editor.messages)
    assert editor.lua("return vim.fn.getline('.')").endswith("The clock. ◀ branchy")
    editor.type("lhere it is<CR>")
    editor.until(lambda: any("[here it is]" in line for line in drawn(editor)), editor.messages)
    assert "The clock." in editor.lua("return vim.fn.getline('.')")
    editor.type("<CR>")
    editor.until(lambda: editor.lua("return vim.bo.filetype") == "json")
    assert json.loads("\n".join(editor.lines()))["message"]["content"] == "The clock."
    editor.type("q")
    editor.until(lambda: editor.lua("return vim.bo.filetype") == "sessiond-tree")
    with python_client(environment) as client:
        heads = {head.name: head.leaf_id for head in client.heads(session)}
        (label,) = client.labels(session).labels
    assert label.entry_id == heads["branchy"]


def places(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the leaf of each head."""
    with python_client(environment) as client:
        return {head.name: head.leaf_id for head in client.heads(SESSION)}


@pytest.mark.parametrize("is_before_the_first_entry", [False, True])
def test_a_tree_refuses_to_make_a_head_that_exists(
    is_before_the_first_entry: bool, editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        entry_id = client.entries(session).entries[1].entry["id"]
        client.branch(session, None if is_before_the_first_entry else entry_id, head="there")
    before = places(environment)
    editor.command(f"Sessiond tree {session}")
    editor.until(lambda: len(drawn(editor)) == 2)
    editor.type("ggbthere<CR>")
    editor.until(lambda: "there is a head there already" in editor.messages(), editor.messages)
    editor.type("bfresh<CR>")
    editor.until(lambda: "fresh" in places(environment), editor.messages)
    after = places(environment)
    del after["fresh"]
    assert after == before


def test_a_tree_refuses_to_make_a_head_that_another_client_makes_meanwhile(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    made: list[str] = []

    def make_the_head_first(line: bytes) -> list[bytes]:
        if b'"session/branch"' in line:
            with python_client(environment) as client:
                made.append(client.entries(session).entries[1].entry["id"])
                client.branch(session, made[0], head="there")
        return [line]

    place = home / "proxy"
    with (
        line_proxy(place, Path(daemon), requests=make_the_head_first),
        editing(neovim, home, {**environment, "SESSIOND_SOCKET": str(place)}) as editor,
    ):
        editor.command(f"Sessiond tree {session}")
        editor.until(lambda: len(drawn(editor)) == 2)
        editor.type("ggbthere<CR>")
        editor.until(lambda: "there is a head there already" in editor.messages(), editor.messages)
    assert places(environment)["there"] == made[0]


def test_a_list_follows_and_opens(
    editor: Editor, session: str, environment: Mapping[str, str], home: Path
) -> None:
    editor.command("Sessiond list")
    editor.until_shown("Fix it")
    kill_the_daemon(environment)
    with python_client(environment) as client:
        client.create(str(home / "project"), title="Another one", persist="immediate")
    editor.until_shown("Another one")
    editor.type("/Fix it<CR><CR>")
    editor.until_shown("The clock.", f"sessiond://tail/{session}")


def test_lists_of_two_folders_follow_each_its_own(
    editor: Editor, session: str, environment: Mapping[str, str], home: Path
) -> None:
    first, second = home / "project", home / "second"
    second.mkdir()

    def make(folder: Path, title: str) -> None:
        with python_client(environment) as client:
            client.create(str(folder), title=title, persist="immediate")
        editor.until_shown(title, f"sessiond://list{folder}")

    editor.command("Sessiond list")
    editor.until_shown("Fix it")
    editor.command(f"cd {second}")
    editor.command("Sessiond list")
    editor.until_shown("No sessions of")
    editor.command(f"cd {first}")
    make(first, "Made in the first")
    make(second, "Made in the second")
    assert [line.split("  ")[-1] for line in editor.lines()] == ["Made in the second"]
    editor.type("nBy the key<CR>")
    editor.until_shown("By the key", f"sessiond://list{second}")
    editor.command(f"bwipeout sessiond://list{second}")
    make(first, "Made behind the other list")


def test_the_status_line_names_session_tokens_and_connection(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    def status() -> str:
        text: str = editor.lua("return require('sessiond').statusline()")
        return text

    editor.command(f"Sessiond tail {session}")
    first = editor.until(
        lambda: (
            found
            if re.fullmatch(r"sessiond · Fix it · \d+ tokens · connected", found := status())
            else ""
        ),
        status,
    )
    say(environment, "a longer text " * 50)
    editor.until(lambda: "connected" in status() and "tokens" in status() and status() != first)


def test_commands_and_sessions_are_completed(editor: Editor, session: str) -> None:
    def completed(line: str) -> Any:
        return editor.lua("return vim.fn.getcompletion(..., 'cmdline')", line)

    assert completed("Sessiond ") == ["append", "list", "new", "tail", "tree", "use"]
    assert completed("Sessiond ta") == ["tail"]
    assert completed("Sessiond tree ses") == [session]
    editor.type(":Sessiond tail ses<Tab>")
    editor.until(lambda: editor.lua("return vim.fn.getcmdline()") == f"Sessiond tail {session}")
    editor.type("<CR>")
    editor.until_shown("The clock.")


@pytest.mark.parametrize("view", ["list", "tail", "tree", "append"])
def test_every_key_is_told_by_the_help(view: str, editor: Editor, session: str) -> None:
    editor.command(f"Sessiond use {session}")
    editor.until(lambda: editor.lua("return vim.g.sessiond_session"))
    editor.command(f"Sessiond {view}")
    editor.until(lambda: f"sessiond://{view}" in editor.lua("return vim.fn.bufname()"))
    keys = editor.lua(
        "return vim.tbl_map(function(m) return m.lhs end, vim.api.nvim_buf_get_keymap(0, 'n'))"
    )
    editor.type("g?")
    editor.until_shown("show these keys")
    told = [line.split()[0] for line in editor.lines()]
    assert sorted(told) == sorted(keys)
    page = (PLUGIN / "doc" / "sessiond.txt").read_text("utf-8")
    for key in keys:
        assert re.search(rf"^    {re.escape(key)} +\S", page, re.MULTILINE), key


def test_the_help_has_its_tags(editor: Editor) -> None:
    editor.command("helptags ALL")
    for tag in (":Sessiond", "sessiond-lua", "sessiond-keys"):
        editor.command(f"help {tag}")
        assert any(f"*{tag}*" in line for line in editor.lines())
