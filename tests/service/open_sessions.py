"""The sessions that a daemon has open, for tests."""

from __future__ import annotations

import pytest

from sessiond.testing.daemon import Daemon, Refusal, Wire


def open_now(daemon: Daemon) -> set[str]:
    return set(daemon.service.statistics().sessions)


async def kind_of(wire: Wire, number: int) -> str:
    with pytest.raises(Refusal) as refused:
        await wire.answer(number)
    kind: str = refused.value.data["kind"]
    return kind
