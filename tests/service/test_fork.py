"""Forks: what each takes of its source, what it is called, and that the source stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import call, create, refused, say, session_info
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION, TIME, stored_entry, stored_message

SAMPLES = Path(__file__).parent.parent / "samples"
# What is asked is refused or it is not, whichever loop runs.
FORK = ("session/fork", "session")
CONTEXT = ("build_context", "messages")
ENTRIES = ("session/entries", "entries[].entry")
PLACES = ("session/path", "entries[].entry.{id,parent_id}")
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")


# m1 - m2 - d1 - m3 - c1 - m4      main
#        \- x1                      tried
SOURCE = [
    stored_message("m1", None),
    stored_message("m2", "m1", "assistant"),
    stored_entry("label", "l1", "m2", target_id="m2", label="good"),
    stored_message("x1", "m2", head="tried"),
    stored_entry("custom", "d1", "m2", custom_type="sessiond.decision", data={"decision": "sqlite"}),
    stored_entry("session_info", "i1", "d1", name="A name", plan="the plan", tags=["a", "b"]),
    stored_message("m3", "d1", atom=[1, 2]),
    stored_entry("compaction", "c1", "m3", summary="so far", first_kept_entry_id="m2", atom=[2, 2]),
    stored_entry("custom", "d2", "x1", head="tried", custom_type="sessiond.artifact", data={"name": "n"}),
    stored_message("m4", "c1", "assistant"),
]  # fmt: skip


async def test_a_path_is_taken_with_its_ids_and_labels_and_says_where_it_comes_from(
    house: House,
) -> None:
    path = house.put(SOURCE)
    before = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK)
        chain = ["m1", "m2", "d1", "m3", "c1", "m4"]
        path_made = await call(wire, *PLACES, session_id=made["id"])
        assert path_made == list(zip(chain, [None, *chain], strict=False))
        assert made["lineage"] == {
            "parent_id": SESSION,
            "parent_path": str(path),
            "at_entry": "m4",
            "at_message": 3,
        }
        assert (made["leaf_id"], made["persisted"], made["problems"]) == ("m4", True, 0)
        assert (made["title"], made["tags"], made["plan"]) == (None, [], None)
        labels = await call(wire, "session/labels", "labels", session_id=made["id"])
        assert [(one["entry_id"], one["label"]) for one in labels] == [("m2", "good")]
        built = await call(wire, *CONTEXT, session_id=made["id"])
        assert built == await call(wire, *CONTEXT)
        fork_text = house.disk.content(Path(made["path"]))
    assert house.disk.content(path) == before
    # What stood where it stands now is the same line.
    assert before.splitlines()[2] in fork_text
    assert b'"atom"' not in fork_text
    # It is the same after a restart.
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire, made["id"])
        assert {**again, "epoch": ""} == {**made, "epoch": ""}


@pytest.mark.parametrize(
    ("params", "leaf"),
    [
        ({"at": "m2"}, "m2"),
        ({"at": "x1"}, "x1"),
        ({"at": None}, None),
        ({"at_message": 0}, "m1"),
        ({"at_message": 2}, "m3"),
        ({"at_message": 3}, "m4"),
    ],
)
async def test_a_path_ends_where_it_is_said_to(house: House, params: Any, leaf: Any) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK, **params)
        assert made["leaf_id"] == leaf
        assert made["lineage"].get("at_entry") == leaf
        ids = await call(wire, "session/path", "entries[].entry.id", session_id=made["id"])
        source = await call(wire, "session/path", "entries[].entry.id", entry_id=leaf or "m1")
        assert ids == (source if leaf else [])


async def test_everything_is_the_same_lines_elsewhere_and_knows_no_parent(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK, entries="all", link="none", cwd="/elsewhere")
        stored = await call(wire, *ENTRIES)
        assert await call(wire, *ENTRIES, session_id=made["id"]) == stored
        assert made["lineage"] == {"detached": True}
        assert (made["cwd"], made["title"], made["plan"]) == ("/elsewhere", "A name", "the plan")
        source = await session_info(wire)
        assert made["heads"] == source["heads"]
        forest = await wire.call("catalog/forest")
        assert [(node["depth"], node["orphan"]) for node in forest["nodes"]] == [(0, False)] * 2
        titled = await call(wire, *FORK, entries="all", title="Another", labels=False)
        assert titled["title"] == "Another"
        assert await call(wire, "session/labels", "labels", session_id=titled["id"]) == []


@pytest.mark.parametrize(
    ("keep", "sources"),
    [(None, ["c1", "m2", "m3", "m4"]), (1, ["c1"]), (3, ["c1", "m2", "m3"]), (99, None)],
)
async def test_a_context_is_taken_as_the_model_sees_it(
    house: House, keep: Any, sources: Any
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        whole = await call(wire, *CONTEXT)
        given = {} if keep is None else {"keep_messages": keep}
        made = await call(wire, *FORK, entries="context", ids="keep", **given)
        built = await wire.call("build_context", session_id=made["id"])
        assert built["sources"] == (sources or ["c1", "m2", "m3", "m4"])
        count = len(built["messages"])
        assert made["lineage"]["fork_point"] == count
        assert [m["role"] for m in built["messages"]] == [m["role"] for m in whole[:count]]
        if count > 1:
            assert built["messages"] == whole[:count]
        renewed = await call(wire, *FORK, entries="context", **given)
        again = await wire.call("build_context", session_id=renewed["id"])
        assert not set(again["sources"]) & set(built["sources"])
        assert [m.get("content") for m in again["messages"]] == [
            m.get("content") for m in built["messages"]
        ]


async def test_a_context_keeps_the_first_messages_of_a_replacement(house: House) -> None:
    replacement = [{"role": "user", "content": str(n)} for n in range(3)]
    house.put(
        [
            stored_entry("model_change", "g1", None, model_id="m-1", provider="p-1"),
            stored_message("m1", "g1"),
            stored_entry("thinking_level_change", "g2", "m1", thinking_level="high"),
            stored_entry("compaction", "c1", "g2", messages=replacement),
            stored_message("m2", "c1"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        for keep in (1, 2, 3, 4):
            made = await call(wire, *FORK, entries="context", keep_messages=keep)
            built = await wire.call("build_context", session_id=made["id"])
            assert built["messages"] == (await call(wire, *CONTEXT))[:keep]
            assert built["model"] == {"model_id": "m-1", "provider": "p-1"}
            assert built["thinking_level"] == "high"
            assert made["lineage"]["fork_point"] == keep


async def test_state_alone_is_the_plan_the_tags_and_what_was_decided(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK, entries="none", state=True)
        assert (made["plan"], made["tags"], made["message_total"]) == ("the plan", ["a", "b"], 0)
        rows = await call(wire, *ENTRIES, session_id=made["id"])
        assert [row["custom_type"] for row in rows if row["type"] == "custom"] == [
            "sessiond.decision",
            "sessiond.artifact",
        ]
        assert made["lineage"] == {
            "parent_id": SESSION,
            "parent_path": made["lineage"]["parent_path"],
        }
        # Beside a path: what is not on it stands aside.
        both = await call(wire, *FORK, state=True)
        assert both["leaf_id"] == "m4"
        assert (await call(wire, *PLACES, session_id=both["id"]))[0] == ("m1", None)
        rows = await call(wire, *ENTRIES, session_id=both["id"])
        ids = [row["id"] for row in rows]
        assert sorted(ids).count("d1") == sorted(ids).count("d2") == 1
        bare = await call(wire, *FORK, entries="none")
        assert (bare["entry_count"], bare["plan"]) == (0, None)


async def test_a_path_with_state_keeps_its_annotations_of_every_branch(house: House) -> None:
    said = {"entry_id": "m2", "data": {"stars": 1}}
    late = stored_entry("custom", "n1", "m4", custom_type="sessiond.annotation", data=said)
    house.put([*SOURCE, late])
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK, at="m3", state=True)
        found = await wire.call("session/entry", session_id=made["id"], entry_id="m2")
        assert found["annotations"] == {"stars": 1}
        assert (made["leaf_id"], made["problems"]) == ("n1", 0)
        rows = await call(wire, *ENTRIES, session_id=made["id"])
        ids = [row["id"] for row in rows]
        assert sorted(ids).count("n1") == 1
        assert await call(wire, "session/fork", "session.leaf_id", at="m3") == "m3"


async def test_ids_are_renewed_when_asked_and_refer_to_each_other_as_before(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for entries in ("path", "all"):
            made = await call(wire, *FORK, entries=entries, ids="renew")
            rows = await call(wire, *ENTRIES, session_id=made["id"])
            assert not {row["id"] for row in rows} & {one["id"] for one in SOURCE}
            assert (made["problems"], made["message_count"]) == (0, 4)
            built = await call(wire, *CONTEXT, session_id=made["id"])
            whole = await call(wire, *CONTEXT)
            for ours, theirs in zip(built, whole, strict=True):
                assert ours | {"first_kept_entry_id": 0} == theirs | {"first_kept_entry_id": 0}
            labels = await call(wire, "session/labels", "labels", session_id=made["id"])
            assert [one["label"] for one in labels] == ["good"]


async def test_a_dry_run_says_what_would_be_and_leaves_nothing(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = house.contents()
        told = await call(wire, *FORK, dry_run=True, new_session_id="the-fork", title="T")
        assert house.contents() == before
        assert (told["path"], told["persisted"], told["leaf_id"]) == (None, False, "m4")
        made = await call(wire, *FORK, new_session_id="the-fork", title="T")
        differs = {"path": None, "persisted": False, "epoch": ""}
        assert {**made, **differs} == {**told, **differs}
        listed = (await wire.call("session/list"))["sessions"]
        assert sorted(one["id"] for one in listed) == sorted([SESSION, "the-fork"])


BAD: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "an unknown entry": ({"at": "nowhere"}, "entry_not_found", "at"),
    "a label": ({"at": "l1"}, "entry_not_found", "at"),
    "an index past the end": ({"at_message": 4}, "invalid_params", "at_message"),
    "a negative index": ({"at_message": -1}, "invalid_params", "at_message"),
    "no message": ({"entries": "context", "keep_messages": 0}, "invalid_params", "keep_messages"),
    "two places": ({"at": "m1", "at_message": 1}, "invalid_params", "at_message"),
    "a place in everything": ({"entries": "all", "at": "m1"}, "invalid_params", "at"),
    "a place in nothing": ({"entries": "none", "at_message": 0}, "invalid_params", "at_message"),
    "messages of a path": ({"keep_messages": 1}, "invalid_params", "keep_messages"),
    "all but the state": ({"entries": "all", "state": False}, "invalid_params", "state"),
    "another word": ({"entries": "most"}, "invalid_params", "entries"),
    "no folder": ({"cwd": ""}, "invalid_params", "cwd"),
    "a bad id": ({"new_session_id": "../x"}, "invalid_params", "new_session_id"),
    "its own id": ({"new_session_id": SESSION}, "session_exists", None),
}


@one_backend
@pytest.mark.parametrize("case", BAD)
async def test_what_cannot_be_is_refused_and_leaves_nothing(house: House, case: str) -> None:
    params, kind, path = BAD[case]
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = house.contents()
        for dry_run in (False, True):
            refusal = await refused(wire, "session/fork", "", dry_run=dry_run, **params)
            assert (refusal["kind"], refusal.get("path")) == (kind, path)
            assert house.contents() == before


async def test_of_two_forks_under_one_id_one_is_made(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        kinds: list[str] = []

        async def ask(wire: Wire) -> None:
            try:
                await call(wire, *FORK, new_session_id="the-fork")
                kinds.append("made")
            except Refusal as refusal:
                kinds.append(refusal.data["kind"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, one)
            tasks.start_soon(ask, other)
        assert sorted(kinds) == ["made", "session_exists"]
        assert len(house.session_files()) == 2


@pytest.mark.parametrize("op", ["create", "write", "fsync", "rename", "fsync_folder"])
async def test_a_fork_that_the_disk_refuses_is_none(house: House, op: str) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        before = house.session_files()
        house.disk.fail(op, errno=28)
        refusal = await refused(wire, "session/fork", "{kind,errno}", new_session_id="the-fork")
        assert refusal == ("storage_error", "ENOSPC")
        assert house.session_files() == before
        assert (await call(wire, *FORK, new_session_id="the-fork"))["leaf_id"] == "m4"


async def test_the_good_path_of_a_damaged_session_is_forked(house: House) -> None:
    lines = [json.dumps(one).encode() for one in SOURCE]
    header = b'{"type":"session_header","version":1,"id":"session-a","timestamp":"%s","cwd":"/p"}'
    house.put(b"\n".join([header % TIME.encode(), *lines[:4], b"damage", *lines[4:], b""]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["read_only"]
        for entries in ("path", "all", "context"):
            made = await call(wire, *FORK, entries=entries)
            assert (made["read_only"], made["problems"]) == (False, 0)
            # An append that damage cut in two must not look like a torn one.
            assert b'"atom"' not in house.disk.content(Path(made["path"]))
            await wire.call("append", session_id=made["id"], message={"role": "user"})


async def test_what_is_in_memory_or_archived_is_forked_into_a_file(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/archive")
        assert await call(wire, "session/fork", "session.archived") is False
        await create(wire, "in-memory", persist="never")
        await say(wire, session_id="in-memory")
        made = (await wire.call("session/fork", session_id="in-memory"))["session"]
        assert (made["persisted"], made["message_count"]) == (True, 1)
        assert made["lineage"]["parent_id"] == "in-memory"
        assert "parent_path" not in made["lineage"]


async def test_what_is_appended_behind_a_fork_is_not_in_it(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        # Its lines are read from here on.
        with house.disk.hold("create") as gate:
            sent = await wire.request("session/fork", session_id=SESSION, entries="all")
            await arrived(gate)
            message = {"role": "user", "content": "late"}
            await call(wire, "append", message=message)
        made = (await wire.answer(sent))["session"]
        assert (made["leaf_id"], made["message_count"]) == ("m4", 4)


async def test_a_label_that_was_cleared_is_not_carried(house: House) -> None:
    cleared = stored_entry("label", "l2", "m4", target_id="m2", label=None)
    house.put([*SOURCE, cleared])
    async with house.daemon() as daemon, daemon.connect() as wire:
        fork_id = await call(wire, "session/fork", "session.id")
        rows = await call(wire, *ENTRIES, session_id=fork_id)
        assert [row["id"] for row in rows if row["type"] == "label"] == []


async def test_a_fork_that_waits_for_the_disk_keeps_no_writer_waiting(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        await one.call("session/get", session_id=SESSION)
        with house.disk.hold("rename") as gate:
            sent = await one.request("session/fork", session_id=SESSION, new_session_id="the-fork")
            await arrived(gate)
            # Nothing that anybody could take for a session is there yet.
            assert [path.suffix for path in house.session_files()] == [".new", ".jsonl"]
            message = {"role": "user", "content": "meanwhile"}
            assert (await other.call("append", session_id=SESSION, message=message))["seq"] == 11
            assert await call(other, *CONTEXT)
            # Who asks for the fork waits until it is there.
            asked = await other.request("session/get", session_id="the-fork")
        assert (await one.answer(sent))["session"]["leaf_id"] == "m4"
        assert (await other.answer(asked))["session"]["leaf_id"] == "m4"


async def test_a_crash_in_the_middle_leaves_no_session_and_the_next_start_no_file(
    home: Path, house: House
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        with house.disk.hold("rename") as gate:
            sent = await wire.request("session/fork", session_id=SESSION)
            await arrived(gate)
            left = type(house)(home, house.disk.crash())
        await wire.answer(sent)
    async with left.daemon() as daemon, daemon.connect() as wire:
        assert [one["id"] for one in (await wire.call("session/list"))["sessions"]] == [SESSION]
        assert [path.suffix for path in left.session_files()] == [".jsonl"]


async def test_a_long_fork_says_how_far_it_is(house: House) -> None:
    house.put([stored_message(f"n{n}", f"n{n - 1}" if n else None) for n in range(2000)])
    async with house.daemon() as daemon, daemon.connect() as wire:
        for entries in ("path", "all"):
            wire.notifications.clear()
            await call(wire, *FORK, entries=entries, _meta={"progress_token": "t"})
            told = [one["params"]["value"] for one in wire.notifications]
            assert [one["kind"] for one in (told[0], told[-1])] == ["begin", "end"]


@pytest.mark.parametrize("sample", ["pi.jsonl"])
async def test_a_fork_of_pis_file_is_pis_file(real_house: House, sample: str) -> None:
    source = next(path for path in SAMPLES.rglob(sample))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = (await wire.call("session/import", path=str(source)))["session"]
        for entries in ("path", "all", "context"):
            for ids in ("keep", "renew"):
                params = {"session_id": own["id"], "entries": entries, "ids": ids}
                made = (await wire.call("session/fork", **params))["session"]
                assert (made["dialect"], made["problems"]) == ("pi", 0)
                assert made["lineage"]["parent_id"] == own["id"]
                mine = await call(wire, *CONTEXT, session_id=made["id"])
                theirs = await call(wire, *CONTEXT, session_id=own["id"])
                for ours, other in zip(mine, theirs, strict=True):
                    assert ours.get("content") == other.get("content")
                header = json.loads(Path(made["path"]).read_bytes().split(b"\n")[0])
                assert header["parentSession"] == own["path"]
                assert (header["type"], header["version"]) == ("session", 3)
        titled = await wire.call("session/fork", session_id=own["id"], title="A fork")
        assert titled["session"]["title"] == "A fork"


@one_backend
@pytest.mark.parametrize("dialect", [None, "pi"])
async def test_the_notes_of_a_fork_name_the_entries_whose_parent_is_missing(
    house: House, dialect: str | None
) -> None:
    house.put(
        [
            stored_message("m1", None),
            stored_message("m2", "gone"),
            stored_message("m3", "m2", "assistant"),
            stored_message("x1", "lost", head="tried"),
        ]
    )
    detail = "its parent is missing; shown as a root"
    async with house.daemon() as daemon, daemon.connect() as wire:
        context = await wire.call("session/build_context", session_id=SESSION)
        (problem,) = context["_meta"]["problems"]
        assert problem == {"line": 3, "kind": "orphan", "detail": detail}
        on_path, elsewhere = f"line 3: {detail}", f"line 5: {detail}"
        wanted = {
            "path": [on_path],
            "context": [on_path],
            "all": [on_path, elsewhere],
            "none": [],
        }
        for entries, notes in wanted.items():
            fork = {"session_id": SESSION, "entries": entries, "dialect": dialect}
            would = await wire.call("session/fork", **fork, dry_run=True)
            made = await wire.call("session/fork", **fork)
            assert would.get("notes", []) == made.get("notes", [])
            assert [one for one in made.get("notes", []) if "parent" in one] == notes
        before = await wire.call("session/fork", session_id=SESSION, at="m1")
        assert "notes" not in before
