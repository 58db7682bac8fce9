"""A start that takes a while ends like any other daemon when it is told to."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.kit.patience import soon
from tests.kit.sessions import native_file
from tests.processes import held_daemon
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_in_order(
    socket_path: Path, home: Path, number: signal.Signals
) -> None:
    folder = home / "held"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "hold")
    daemon = Daemon(
        socket_path, home / "data", program=[sys.executable, held_daemon.__file__, str(folder)]
    )
    pending = daemon.profile / "pending"
    pending.mkdir(parents=True)
    for draft in ("draft-one", "draft-two", "draft-three"):
        (pending / f"{draft}.jsonl").write_bytes(native_file([], draft))
    daemon.start()
    try:
        soon((folder / "reached").exists, daemon.said)
        assert daemon.signal_and_look(number) is None
        soon(lambda: f'"signal":"{number.name}"' in daemon.said(), daemon.said)
        with (folder / "hold").open("wb"):
            (folder / "hold").unlink()
        assert daemon.end() == 0, daemon.said()
    finally:
        daemon.discard()
    assert '"bug"' not in daemon.said()
    assert "catalog" not in daemon.said()
    assert "Traceback" not in daemon.said()
    # What it was not done with is the next start's.
    assert len((folder / "opened").read_text("utf-8").splitlines()) == 1
    assert len(list(pending.glob("*.jsonl"))) == 3
