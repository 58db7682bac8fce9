"""The package beside a daemon of another version: one message, however often the package connects."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sessiond import __version__
from tests.interop.emacs.editor import Editor, quoted
from tests.versions.talk import another_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

LOSE: Final = """
(let ((client (sessiond-client-shared)))
  (sessiond-client--lost client (sessiond-client--link client))
  nil)
"""


@pytest.mark.parametrize(("age", "version"), [("older", "0.1.0"), ("newer", "0.10.0")])
def test_the_package_tells_a_daemon_of_another_version_once(
    age: str, version: str, editor: Editor, place: Path
) -> None:
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(place / "other"))})')
    editor.eval("(setq sessiond-start-daemon nil)")
    with another_daemon(place / "other", version):
        for _ in range(2):
            assert len(editor.ask("session/list", "nil")["result"]["sessions"]) == 1
            editor.eval(LOSE)
        line = (
            f"sessiond: the running daemon is {age} ({version}) than this package ({__version__})"
        )
        told = editor.text("*Messages*", line)
        assert told.count("the running daemon") == 1
        assert "sessiond restart' replaces it" in told.replace("\u2019", "'")
