"""The plugin sends nothing to a socket at which another user may listen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.interop.neovim.acts import SESSION, asked
from tests.interop.neovim.editor import Editor, editing
from tests.kit.foreign_places import PLACES, WAYS, overheard

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

# What a system without such a folder would say.
NO_DESCRIPTORS: Final = """
local stat = vim.loop.fs_stat
vim.loop.fs_stat = function(path, ...)
  if path ~= "/proc/self/fd" then
    return stat(path, ...)
  end
end
"""
EVERY_PLACE: Final = [(True, name) for name in PLACES] + [(False, name) for name in PLACES | WAYS]


@pytest.mark.parametrize(("has_descriptors", "name"), EVERY_PLACE)
def test_nothing_is_sent_where_another_user_may_listen(
    has_descriptors: bool,
    name: str,
    editor: Editor,
    socket_path: Path,
    absent: Callable[[str], NoReturn],
) -> None:
    if os.geteuid():
        absent("only root can listen as another user")
    make, reason = (PLACES | WAYS)[name]
    place = make(socket_path.parent)
    if not has_descriptors:
        editor.lua(NO_DESCRIPTORS)
    editor.lua("require('sessiond').setup({ socket = ... })", str(place))
    with overheard(place, name):
        failure: dict[str, Any] = asked(editor, "heads", SESSION)
    assert (failure["kind"], failure["outcome_unknown"]) == ("foreign_socket", False)
    assert str(place) in failure["message"]
    assert reason in failure["message"]
    assert "mode 0700" in failure["message"]


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_the_own_daemon_is_talked_to(has_descriptors: bool, editor: Editor, session: str) -> None:
    if not has_descriptors:
        editor.lua(NO_DESCRIPTORS)
    assert len(asked(editor, "heads", session)["heads"]) == 1


def test_no_other_user_can_be_permitted(
    neovim: str, home: Path, environment: Mapping[str, str]
) -> None:
    with editing(neovim, home, environment) as editor:
        is_taken, reason = editor.lua(
            "return { pcall(require('sessiond').setup, { peer_uid = 65534 }) }"
        )
    assert not is_taken
    assert "Neovim does not tell the user" in reason
