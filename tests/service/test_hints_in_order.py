"""Hints about a session come in the order of what was stored, whoever stored it."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from anyio import create_task_group, to_thread

from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import HI, SESSION


class Held:
    """A scan that waits behind its transactions, once it is armed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.stored, self.goes_on = Event(), Event()
        settle = FolderScanner._settle_roots

        def settle_roots(scanner: FolderScanner, roots: Any) -> None:
            settle(scanner, roots)
            if self.armed:
                self.armed = False
                self.stored.set()
                assert self.goes_on.wait(PATIENCE_SECONDS)

        patch.setattr(FolderScanner, "_settle_roots", settle_roots)


# A flush between the two would tell of the first alone: lists store here, and nothing else does.
@pytest.mark.limits(CATALOG_FLUSH_SECONDS=1e6)
async def test_a_session_that_comes_again_during_a_scan_is_not_told_as_deleted(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, heard = Held(monkeypatch), list[str]()
    async with (
        real_house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as watching,
        daemon.connect() as listing,
        create_task_group() as tasks,
    ):
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        shown = await wire.call("session/get", session_id=SESSION)
        await wire.call("session/close", session_id=SESSION)
        await eventually(lambda: daemon.service.registry.is_free(SESSION))
        await wire.call("session/list")
        await watching.call("catalog/subscribe")

        async def listen(wire: Wire) -> None:
            while True:
                notice = await wire.next_notification()
                heard.append(notice["params"]["change"])

        tasks.start_soon(listen, watching)
        Path(shown["session"]["path"]).unlink()
        held.armed = True
        request = await listing.request("session/list")
        assert await to_thread.run_sync(held.stored.wait, PATIENCE_SECONDS)
        # The scan has stored that the session is gone. It comes again before the scan ends.
        await create(wire, SESSION, persist="immediate")
        # A list stores what has changed, and then waits for the scan.
        another = await wire.request("session/list")
        await eventually(lambda: "created" in heard)
        held.goes_on.set()
        await listing.answer(request)
        await wire.answer(another)
        await eventually(lambda: {"deleted", "created"} <= set(heard))
        assert heard.index("deleted") < heard.index("created"), heard
        tasks.cancel_scope.cancel()
