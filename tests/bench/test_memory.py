"""Row 10: the figures that it reads and compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.harness.errors import BenchError
from tests.bench.harness.proc import folder_of, resident_kib, switches_of
from tests.bench.peers.pi import PI
from tests.bench.rows.open_memory import PI_TENFOLD, compared


def test_memory_and_wake_ups_are_read_from_the_status_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tsessiond\nVmRSS:\t   10240 kB\n")
    for thread, switches in (("1", 3), ("2", 4)):
        task = tmp_path / "task" / thread
        task.mkdir(parents=True)
        (task / "status").write_text(f"voluntary_ctxt_switches:\t{switches}\n")
    assert resident_kib(tmp_path) == 10_240
    assert switches_of(tmp_path) == 7
    (tmp_path / "status").write_text("Name:\tsessiond\n")
    with pytest.raises(BenchError, match="status has no VmRSS"):
        resident_kib(tmp_path)


def test_a_process_that_is_not_there_has_no_figures() -> None:
    with pytest.raises(BenchError, match="no /proc"):
        folder_of(2**30)


def test_pi_is_compared_at_the_same_size_while_it_can_open_it() -> None:
    assert compared(10_000, 100_000) == [(10_000, 10_000, PI), (100_000, 100_000, PI)]
    assert compared(100_000, 1_000_000)[1] == (1_000_000, 100_000, PI_TENFOLD)
