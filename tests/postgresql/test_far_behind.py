"""A daemon that was stopped while another daemon stored 64 MB: what the daemon needs to catch up."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sessiond.limits import DATABASE_PIECE_BYTES
from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import running

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSION = "my-session"
TEXT = "x" * (64 << 10)
TOGETHER = 16
APPENDS = 64
# A piece as the driver has it, as lines, for the spool, and as found lines; and what the allocator keeps.
PEAK_BYTES_MAX = 9 * DATABASE_PIECE_BYTES


def peak(daemon: SharingDaemon) -> int:
    """Return the largest resident size so far."""
    text = Path(f"/proc/{daemon.pid}/status").read_text("utf-8")
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def test_a_daemon_far_behind_needs_little_memory_to_catch_up(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    one, two = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(one), running(two), one.connect() as link, two.connect() as beside:
        link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        link.say(SESSION, "first")
        assert beside.ask("session/get", session_id=SESSION)["session"]["seq"] == 1
        two.signal_and_look(signal.SIGSTOP)
        before = peak(two)
        for number in range(APPENDS):
            said = [
                {
                    "type": "message",
                    "id": f"e-{number}-{at}",
                    "message": {"role": "user", "content": TEXT},
                }
                for at in range(TOGETHER)
            ]
            link.ask("append", session_id=SESSION, entries=said)
        two.signal_and_look(signal.SIGCONT)
        last = 1 + APPENDS * TOGETHER
        assert beside.ask("session/get", session_id=SESSION)["session"]["seq"] == last
        grown = peak(two) - before
        assert grown < PEAK_BYTES_MAX, f"{grown >> 20} MiB"
        # The daemon has all lines, and goes on.
        page = beside.ask("session/entries", session_id=SESSION, limit=1)
        assert page["entries"][0]["seq"] in {1, last}
        assert beside.say(SESSION, "behind all")["entries"][0]["seq"] == last + 1
