"""The package sends nothing to a socket at which another user may listen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.interop.emacs.editor import Editor, quoted
from tests.interop.emacs.scripted_daemon import ScriptedDaemon
from tests.interop.test_stubs import SESSION
from tests.kit.foreign_places import PLACES, WAYS, overheard

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

APPEND: Final = (
    f"""(progn (driver-ask "session/append" '(:session_id {quoted(SESSION)} """
    """:message (:role "user" :content "hi"))) nil)"""
)


@pytest.mark.parametrize("name", PLACES | WAYS)
def test_nothing_is_sent_where_another_user_may_listen(
    name: str, editor: Editor, socket_path: Path, absent: Callable[[str], NoReturn]
) -> None:
    if os.geteuid():
        absent("only root can listen as another user")
    make, reason = (PLACES | WAYS)[name]
    path = make(socket_path.parent)
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(path))})')
    with overheard(path, name):
        failure = editor.ask("session/heads", f"'(:session_id {quoted(SESSION)})")["error"]
    assert failure["kind"] == "foreign_socket"
    assert not failure["data"]
    assert str(path) in failure["message"]
    assert reason in failure["message"]
    assert "mode 0700" in failure["message"]


def test_an_append_that_an_earlier_daemon_may_have_is_of_unknown_outcome(
    editor: Editor, scripted: ScriptedDaemon, place: Path
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    scripted.read("session/append")
    place.chmod(0o755)
    scripted.hang_up()
    failure = editor.until("(car driver-answers)")["error"]
    assert (failure["kind"], failure["data"]) == ("foreign_socket", {"outcome_unknown": True})


def test_no_other_user_can_be_permitted(editor: Editor) -> None:
    told = editor.eval(
        "(condition-case failure (sessiond-client-new :peer-uid 65534)"
        " (error (error-message-string failure)))"
    )
    assert "Emacs does not tell the user" in told
