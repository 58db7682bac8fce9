"""A home that was brought back to an earlier moment and went on: what clients hold from the future that was lost.

A restored backup, a copy beside the original and a rolled back volume are alike here: the files are those of the
earlier moment, and clients remember what came behind it. Nothing that they hold names other content.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from sessiond.testing.daemon import Daemon, running_daemon, standing_environment
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, events, refused, say, watch

MADE_LATER: Final = "session-made-later"


class Home:
    """A home with a backup. Ids and the clock go on over all its daemons: no start finds what an earlier one drew."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder, self._backup = folder, folder.with_name("backup")
        self._way = way
        self._now_ms = 0
        self.step_ms = 2000
        """Milliseconds between the starts of two daemons."""
        self._environment = standing_environment()

    @asynccontextmanager
    async def daemon(self) -> AsyncGenerator[Daemon]:
        """Run a daemon."""
        self._now_ms += self.step_ms
        now = f"2026-01-15T10:30:{self._now_ms / 1000:06.3f}Z"
        environment = replace(self._environment, now=lambda: now)
        async with running_daemon(self.folder, environment=environment) as daemon:
            yield daemon

    @asynccontextmanager
    async def wire(self) -> AsyncGenerator[Wire]:
        """Run a daemon, and connect to it."""
        async with self.daemon() as daemon, daemon.connect() as wire:
            yield wire

    async def begin(self) -> None:
        """Make a session of three messages, and keep the files of that moment."""
        async with self.wire() as wire:
            await create(wire, persist="immediate")
            await talk(wire, "one", "two", "three")
        shutil.copytree(self.folder, self._backup)

    def go_back(self) -> None:
        """Bring back the files that were kept."""
        if self._way == "a restored backup":
            shutil.rmtree(self.folder)
            shutil.copytree(self._backup, self.folder)
            return
        for path in [one for one in self.folder.rglob("*") if one.is_file()]:
            kept = self._backup / path.relative_to(self.folder)
            if kept.exists():
                path.write_bytes(kept.read_bytes())
                shutil.copystat(kept, path)
            else:
                path.unlink()
        shutil.copytree(self._backup, self.folder, dirs_exist_ok=True)


@pytest.fixture(params=["a restored backup", "a rolled back volume"])
async def went(home: Path, request: pytest.FixtureRequest) -> Home:
    """Return a home that has begun. On a rolled back volume files keep their inode numbers, in a backup they do not."""
    made = Home(home, request.param)
    await made.begin()
    return made


async def talk(wire: Wire, *texts: str) -> None:
    """Append messages, each with a key that stands for its text."""
    for text in texts:
        await say(wire, text, idempotency_key=f"key of {text}")


Future = Callable[[Wire], Awaitable[None]]


async def lost(wire: Wire) -> None:
    """Go on as the home did before it went back; the clients may send all of it again."""
    await talk(wire, "four", "five", "six", "seven")


async def otherwise(wire: Wire) -> None:
    """Go on with other content at the same lines."""
    await talk(wire, "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT")


FUTURES = pytest.mark.parametrize("future", [lost, otherwise], ids=["the same", "another"])


async def lines(wire: Wire) -> list[tuple[str, int]]:
    """Return the ids and seqs of all entries of the session."""
    return list(await call(wire, "session/entries", "entries[].{entry.id,seq}"))


@FUTURES
async def test_a_cursor_resumes_by_the_id_of_its_entry(went: Home, future: Future) -> None:
    async with went.wire() as wire:
        epoch = (await watch(wire))["epoch"]
        await lost(wire)
        seen = await lines(wire)
    went.go_back()
    async with went.daemon() as daemon, daemon.connect() as wire:
        for moment in ("nothing came yet", "went on"):
            if moment == "went on":
                await future(wire)
            here = await lines(wire)
            for (entry_id, seq), more in (
                (one, more) for one in seen for more in ({}, {"epoch": epoch})
            ):
                async with daemon.connect() as client:
                    answer = await watch(client, after={"seq": seq, "entry_id": entry_id, **more})
                    fits = (entry_id, seq) in here
                    assert ("replaced" in answer) != fits
                    rest = here[seq:] if fits else here
                    assert await events(client, len(rest) + 1) == [*rest, ("synced", len(here))]


def epoch_of(context: Any) -> str:
    """Return the epoch under which a context was built."""
    return str(context["etag"].partition(".")[0])


@FUTURES
async def test_an_etag_is_that_of_one_content(went: Home, future: Future) -> None:
    async with went.wire() as wire:
        await lost(wire)
        held = [
            (entry_id, view, await call(wire, "build_context", entry_id=entry_id, **view))
            for entry_id, _ in await lines(wire)
            for view in ({}, {"shape": "openai", "include": ["system"]})
        ]
    went.go_back()
    async with went.wire() as wire:
        await future(wire)
        for entry_id, _ in await lines(wire):
            for at, view, was in held:
                asked = {"entry_id": entry_id, **view}
                now = await call(wire, "build_context", **asked)
                again = await call(wire, "build_context", **asked, if_none_match=was["etag"])
                assert ("not_modified" in again) == (
                    entry_id == at and epoch_of(now) == epoch_of(was)
                )
                known = {"leaf_id": was["leaf_id"], "count": len(was["messages"])}
                grown = await call(wire, "build_context", **asked, known=known)
                both = was["messages"][: grown["unchanged"]] + grown["messages"]
                assert both == now["messages"]


async def test_an_etag_names_the_settings_of_its_context(went: Home) -> None:
    async with went.wire() as wire:
        await call(wire, "session/update", model="lost")
        was = await call(wire, "build_context")
    went.go_back()
    async with went.wire() as wire:
        await call(wire, "session/update", model="other")
        again = await call(wire, "build_context", if_none_match=was["etag"])
        assert (again["leaf_id"], again["model"]["model_id"]) == (was["leaf_id"], "other")


PAGED: Final[list[tuple[str, dict[str, Any]]]] = [
    *(("session/path", form) for form in ({}, {"from_end": True})),
    *(("session/turns", form) for form in ({}, {"from_end": True}, {"view": "agent"})),
    *(("session/tree", form) for form in ({}, {"layout": True})),
]
LABELS: Final[tuple[str, dict[str, Any]]] = ("session/labels", {})
"""Methods whose answers go on behind a line, with the forms of their pages. A label moves the end of the tree."""


async def labelled(wire: Wire) -> None:
    """Label all entries."""
    for entry_id, _ in await lines(wire):
        await call(wire, "session/label", entry_id=entry_id, label=f"label of {entry_id}")


async def pages(wire: Wire, method: str, form: dict[str, Any]) -> dict[str, list[str]]:
    """Return what the pages behind the first one show, each under the cursor that leads to it."""
    found: dict[str, list[str]] = {}
    cursor = await call(wire, method, "next_cursor", **form, limit=2)
    while cursor is not None:
        page = await call(wire, method, **form, limit=2, cursor=cursor)
        found[cursor] = shown(page)
        cursor = page["next_cursor"]
    return found


def shown(page: Any) -> list[str]:
    """Return the ids of the rows of a page."""
    (rows,) = [
        value for name, value in page.items() if name in {"labels", "entries", "nodes", "turns"}
    ]
    return [row.get("entry_id") or row.get("entry", row)["id"] for row in rows]


async def go_on(
    wire: Wire, way: tuple[str, dict[str, Any]], held: dict[str, list[str]], fitting: int
) -> None:
    """Ask for the pages behind cursors: the first `fitting` ones show what they showed, and the others are refused."""
    method, form = way
    for number, (cursor, was) in enumerate(held.items()):
        if number < fitting:
            assert shown(await call(wire, method, **form, limit=2, cursor=cursor)) == was
        else:
            assert await refused(wire, method, "path", **form, cursor=cursor) == "cursor"


@FUTURES
async def test_a_page_goes_on_in_the_content_that_it_began_in(went: Home, future: Future) -> None:
    async with went.wire() as wire:
        await lost(wire)
        held = [await pages(wire, *way) for way in PAGED]
        await labelled(wire)
        labels = await pages(wire, *LABELS)
    assert min(map(len, [*held, labels])) > 1
    went.go_back()
    async with went.wire() as wire:
        await future(wire)
        for way, cursors in zip(PAGED, held, strict=True):
            await go_on(wire, way, cursors, len(cursors) if future is lost else 0)
        await labelled(wire)
        if future is otherwise:
            # The first page ended at a line that is still there.
            assert await call(wire, LABELS[0], limit=2, cursor=next(iter(labels)))
            del labels[next(iter(labels))]
        await go_on(wire, LABELS, labels, len(labels) if future is lost else 0)


@pytest.mark.parametrize("kind", ["state", "secret"])
async def test_a_revision_is_given_once(went: Home, kind: str) -> None:
    place = {"namespace": "n", "key": "k"}
    went.step_ms = 20
    async with went.wire() as wire:
        # More changes than milliseconds until the next start, as where many are sent at once.
        seen = [
            await call(wire, f"{kind}/set", "revision", **place, value=str(n)) for n in range(60)
        ]
    went.go_back()
    async with went.wire() as wire:
        now = [
            await call(wire, f"{kind}/set", "revision", **place, value=str(n)) for n in range(60)
        ]
        assert min(now) > max(seen)
        for revision in seen:
            asked = {**place, "value": "over", "expected_revision": revision}
            assert await refused(wire, f"{kind}/set", **asked) == "revision_mismatch"
            del asked["value"]
            assert await refused(wire, f"{kind}/delete", **asked) == "revision_mismatch"


async def test_revisions_of_lists_grow(went: Home) -> None:
    async with went.wire() as wire:
        await lost(wire)
        seen = await call(wire, "session/list", "revision")
    went.go_back()
    async with went.wire() as wire:
        await otherwise(wire)
        assert await call(wire, "session/list", "revision") > seen


async def test_a_lease_of_the_lost_future_is_over(went: Home) -> None:
    async with went.wire() as wire:
        was = await call(wire, "session/acquire", ttl_ms=60_000)
    went.go_back()
    async with went.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        asked = {"lease_id": was["lease_id"]}
        assert await refused(wire, "append", message={"role": "user", "content": "x"}, **asked) == (
            "lease_lost"
        )
        now = await call(other, "session/acquire", ttl_ms=60_000)
        assert now["epoch"] > was["epoch"]
        assert now["lease_id"] != was["lease_id"]
        for method, more in (("session/renew", {"ttl_ms": 1000}), ("session/reset", {})):
            assert await refused(wire, method, **asked, **more) in {"lease_held", "lease_lost"}


async def test_a_queued_prompt_of_the_lost_future_is_queued_again(went: Home) -> None:
    async def queue(wire: Wire, data: str, **more: Any) -> Any:
        return await call(wire, "session/signal", kind="steer", data=data, queue=True, **more)

    async with went.wire() as wire:
        drawn = await queue(wire, "lost")
        await queue(wire, "lost too", queue_id="prompt-1")
        await queue(wire, "taken", queue_id="prompt-2")
        await append(wire, "prompt-2", "taken")
        await queue(wire, "removed", queue_id="prompt-3")
        await call(wire, "session/queue", done=["prompt-3"])
    went.go_back()
    async with went.wire() as wire:
        await call(wire, "session/queue", done=[drawn["queue_id"]])
        now = await queue(wire, "other")
        assert now["queue_id"] != drawn["queue_id"]
        for number, data in (
            ("prompt-1", "lost too"),
            ("prompt-2", "taken"),
            ("prompt-3", "removed"),
        ):
            answer = await queue(wire, data, queue_id=number)
            assert answer == {"queue_id": number, "duplicate": False}
        await call(wire, "session/queue", done=[drawn["queue_id"]])
        waiting = await call(wire, "session/queue", "waiting[].data")
        assert waiting == ["other", "lost too", "taken", "removed"]
        # Another prompt under an id that was given again is no duplicate.
        more = {"kind": "steer", "queue": True, "queue_id": "prompt-1"}
        assert (
            await refused(wire, "session/signal", data="not this", **more) == "idempotency_conflict"
        )


KEYED: Final[dict[str, dict[str, Any]]] = {
    "append": {"message": {"role": "user", "content": "keyed"}},
    "session/decide": {"decision": "keyed"},
    "session/artifact": {"name": "keyed", "path": "keyed"},
    "session/task": {"tokens_added": 1},
    "session/prune": {"force": True},
    "session/compact": {"summary": "keyed"},
    "session/merge": {"other_session_id": MADE_LATER, "text": "keyed"},
}


@pytest.mark.parametrize("method", KEYED)
async def test_a_key_answers_for_the_entry_that_is_there(went: Home, method: str) -> None:
    async def ask(wire: Wire, key: str) -> Any:
        return await call(wire, method, **KEYED[method], idempotency_key=key)

    async def other(wire: Wire) -> None:
        await create(wire, MADE_LATER, persist="immediate")
        await append(wire, "m1", session_id=MADE_LATER)

    async with went.wire() as wire:
        await lost(wire)
        await other(wire)
        await ask(wire, "lost")
    went.go_back()
    async with went.wire() as wire:
        await other(wire)
        kept = await say(wire, "three", idempotency_key="key of three")
        assert (kept["duplicate"], kept["seq"]) == (True, 3)
        await otherwise(wire)
        before = await lines(wire)
        # A merge is a turn of three entries.
        count = 3 if method == "session/merge" else 1
        for _ in range(2):
            await ask(wire, "lost")
            assert len(await lines(wire)) == len(before) + count


async def test_an_id_of_the_lost_future_is_free(went: Home) -> None:
    async with went.wire() as wire:
        await create(wire, MADE_LATER, persist="immediate")
        await append(wire, "n1", session_id=MADE_LATER)
        fork = await call(wire, "session/fork", "session.id")
        epoch = await call(wire, "session/get", "session.epoch", session_id=MADE_LATER)
    went.go_back()
    async with went.wire() as wire:
        for session_id in (MADE_LATER, fork):
            assert await refused(wire, "session/get", session_id=session_id) == "session_not_found"
        made = await create(wire, MADE_LATER, persist="immediate")
        assert made["created"]
        assert made["session"]["epoch"] != epoch
        await append(wire, "other", session_id=MADE_LATER)
        answer = await watch(wire, session_id=MADE_LATER, after={"seq": 1, "epoch": epoch})
        assert answer["replaced"] == "epoch"


async def test_a_plan_of_the_lost_future_is_refused(went: Home) -> None:
    async with went.wire() as wire:
        await lost(wire)
        settings = {"keep_recent_tokens": 1}
        await call(wire, "session/update", compaction=settings)
        plan = await call(wire, "session/plan_compaction", "plan")
    went.go_back()
    async with went.wire() as wire:
        await otherwise(wire)
        asked = {"plan_id": plan["plan_id"], "summary": "of the lost future"}
        assert await refused(wire, "session/compact", **asked) == "plan_stale"


async def test_a_guard_of_the_lost_future_holds(went: Home) -> None:
    async with went.wire() as wire:
        await lost(wire)
        (*_, last) = await lines(wire)
    went.go_back()
    async with went.wire() as wire:
        await otherwise(wire)
        for guard in ({"leaf_id": last[0]}, {"leaf_id": last[0], "seq": last[1]}):
            message = {"role": "user", "content": "guarded"}
            kind = await refused(wire, "append", message=message, expected=guard)
            assert kind == "precondition_failed"


async def test_pages_of_lists_and_of_the_trash_go_on_at_their_place(went: Home) -> None:
    async with went.wire() as wire:
        for number in range(4):
            await create(wire, f"session-{number}-lost", persist="immediate")
        listed = await call(wire, "session/list", limit=2, sort="title")
        for number in range(4):
            await call(wire, "session/delete", session_id=f"session-{number}-lost")
        trashed = await call(wire, "session/trash", limit=2)
    went.go_back()
    async with went.wire() as wire:
        for number in range(4):
            await create(wire, f"session-{number}-other", persist="immediate")
        shown = await call(wire, "session/list", "sessions[].id", sort="title")
        rest = await call(
            wire, "session/list", "sessions[].id", sort="title", cursor=listed["next_cursor"]
        )
        assert rest == shown[-len(rest) :] if rest else True
        assert (await call(wire, "session/trash", cursor=trashed["next_cursor"]))["sessions"] == []
