"""The way through the stages of a walk, and the stages that every walk has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from sessiond_client import connect_blocking
from tests.kit.link import request
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.program import Program
from tests.processes.harness.walk import PATIENT, Walk

__all__ = ["Stage", "killed", "restarted", "walked"]

Stage = Callable[[Walk], None]
_SENT_BEFORE_THE_KILL: Final = 8


def walked(
    daemon: Daemon, program: Program, folder: Path, stages: Sequence[Stage], *, native: bool
) -> None:
    """Walk all stages. Each says in its docstring which rows of the list of features it shows."""
    folder.mkdir(parents=True)
    with connect_blocking(daemon.socket_path, **PATIENT) as client:
        walk = Walk(daemon, client, program, folder, native=native)
        for stage in stages:
            stage(walk)
            walk.agree()
        walk.end()


# -- stages of every walk ------------------------------------------------------------------


def restarted(walk: Walk) -> None:
    """Rows 76, 130, 151: the daemon stops as asked and starts; client and subscriber go on."""
    before = walk.info
    walk.client.stop()
    walk.daemon.restart(None)
    after = walk.info
    assert (after.leaf_id, after.seq, after.epoch) == (before.leaf_id, before.seq, before.epoch)
    assert (after.title, after.heads) == (before.title, before.heads)


def killed(walk: Walk) -> None:
    """Row 76: `kill -9` while appends are on their way; each is stored once, in order."""
    texts = [f"sent before the kill {number}" for number in range(_SENT_BEFORE_THE_KILL)]
    told: list[dict[str, Any]] = [
        {
            "session_id": walk.session_id,
            "idempotency_key": text,
            "message": walk.program.user(text),
        }
        for text in texts
    ]
    with walk.daemon.connect() as link:
        for number, params in enumerate(told):
            link.send(request(number, "session/append", **params))
        stored = link.answer(0)
        walk.daemon.kill()
    walk.daemon.start()
    assert walk.texts()[-_SENT_BEFORE_THE_KILL:].count(texts[0]) == 1
    for number, params in enumerate(told):
        again = walk.client.call("session/append", **params)
        assert number > 0 or (again["entries"], again["duplicate"]) == (stored["entries"], True)
    assert walk.texts()[-_SENT_BEFORE_THE_KILL:] == texts
