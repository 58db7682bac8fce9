"""A start that takes a while ends like any other daemon when it is told to."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes import held_start
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

HEADER = '{"type":"session_header","version":1,"id":"%s","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_in_order(
    socket_path: Path, home: Path, number: signal.Signals
) -> None:
    folder = home / "held"
    folder.mkdir(parents=True)
    (folder / "hold").touch()
    daemon = Daemon(
        socket_path, home / "data", program=[sys.executable, held_start.__file__, str(folder)]
    )
    pending = daemon.profile / "pending"
    pending.mkdir(parents=True)
    for draft in ("draft-one", "draft-two", "draft-three"):
        (pending / f"{draft}.jsonl").write_text(HEADER % draft, "utf-8")
    daemon.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (folder / "reached").exists():
            daemon.require_running()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert daemon.signal_and_look(number) is None
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
