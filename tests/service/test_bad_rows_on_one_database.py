"""Rows that cannot be read, since a person has changed them: other sessions go on as if they were not there."""

from __future__ import annotations

from anyio import fail_after, to_thread

from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, part_of, refused
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.one_database.site import SPOILT_ID, Site, clients_of
from tests.service.test_presence_on_one_database import is_shown, watched

WELL = "session-b"


async def shown(wire: Wire) -> tuple[list[str], list[str]]:
    """Return the sessions of a list, and what the list says cannot be read; the list is not old."""
    listed = await call(wire, "session/list")
    assert "_meta" not in listed
    unreadable = [one["path"] for one in listed.get("unreadable", ())]
    return sorted(part_of(listed, "sessions[].id")), unreadable


async def test_an_id_that_is_no_text_keeps_no_other_session_from_lists_and_events(
    site: Site,
) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        for session_id in (SESSION, WELL):
            await create(one, session_id, persist="immediate")
            await three.call("session/subscribe", session_id=session_id)
        await to_thread.run_sync(site.spoil_id)
        for name in ("e-1", "e-2"):
            # The look is for both sessions.
            await append(one, name)
            await append(one, name, session_id=WELL)
            sessions = set[str]()
            while WELL not in sessions:
                event = await three.next_notification()
                assert event["method"] in {"session/event", "session/synced"}
                sessions.add(event["params"]["session_id"])
        for wire in (one, three):
            sessions_shown, unreadable = await shown(wire)
            assert WELL in sessions_shown
            assert unreadable == [SPOILT_ID]
    async with site.daemon("five") as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            assert await shown(wire) == ([WELL], [SPOILT_ID])
            assert await refused(wire, "session/get") == "session_not_found"
            await append(wire, "e-3", session_id=WELL)


async def test_presence_that_is_none_keeps_no_call_from_its_session(site: Site) -> None:
    async with watched(site, "one", "three") as (one, three):
        await call(one, "session/presence", state="thinking")
        await eventually(lambda: is_shown(three))
        await to_thread.run_sync(site.spoil_presence)
        await append(one, "e-1")
        await append(three, "e-2")

        async def is_gone() -> bool:
            return bool(await call(three, "session/presence", "clients") == [])

        await eventually(is_gone)
        await append(one, "e-3")
        async with site.daemon("five") as daemon, daemon.connect() as wire:
            await append(wire, "e-4")
        # What its daemon shows next can be read again.
        await call(one, "session/presence", state="idle")
        await call(one, "session/presence", state="thinking")
        await eventually(lambda: is_shown(three))
