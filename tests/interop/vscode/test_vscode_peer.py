"""The extension sends nothing to a socket at which another user may listen, and says what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.interop.vscode.acts import Drive
from tests.kit.other_user import OTHER_UID, listening_as

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_nothing_is_sent_to_the_socket_of_another_user(
    drive: Drive, socket_path: Path, absent: Callable[[str], NoReturn]
) -> None:
    if os.geteuid():
        absent("only root can listen as another user")
    with listening_as(OTHER_UID, socket_path) as listener:
        js = drive(socket=str(socket_path), connectTimeoutMs=3_600_000)
        told = js(
            "try { await connection.client(); } catch (error) { return core.sentence(error); }"
        )
        listener.require_silence()
    assert f"the socket belongs to another user (uid {OTHER_UID}); mend that, or name" in told
