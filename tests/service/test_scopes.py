"""scope/resolve and scope/switch: one session for each key, and projects that are switched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.profile.lock import owned
from tests.kit.calls import append, call, refused, session_info
from tests.kit.house import House, arrived
from tests.kit.roots import ids

GLOBAL = {"scope": "global"}
BRAINSTORM = {"scope": "assistant", "agent": "brainstorm"}


@pytest.fixture
def projects(house: House, tmp_path: Path) -> list[str]:
    """Return the folders of two projects, on both disks."""
    made = [tmp_path.resolve() / name for name in ("alpha", "beta")]
    for path in made:
        path.mkdir()
        house.disk.make_folder(path)
    return [str(path) for path in made]


def of(project: str, agent: str | None = None) -> dict[str, Any]:
    """Return the key of a project-scoped session."""
    key = {"scope": "project", "project": project}
    return key if agent is None else key | {"agent": agent}


async def test_each_key_has_one_session(house: House, projects: list[str]) -> None:
    alpha, beta = projects
    keys = [
        GLOBAL,
        BRAINSTORM,
        BRAINSTORM | {"agent": "tidy up"},
        of(alpha),
        of(alpha, "coder"),
        of(alpha, "architect"),
        of(beta),
        of(beta, "coder"),
    ]
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = [await wire.call("scope/resolve", **key) for key in keys]
        assert [one["created"] for one in made] == [True] * len(keys)
        made_ids = [one["session"]["id"] for one in made]
        assert len(set(made_ids)) == len(keys)
        assert await ids(wire) == sorted(made_ids)
        assert [one["session"]["scope"] for one in made] == keys
        assert [one["session"]["cwd"] for one in made] == ["/"] * 3 + [alpha] * 3 + [beta] * 2
        agents = [None, "brainstorm", "tidy up", None, "coder", "architect", None, "coder"]
        assert [one["session"]["agent"] for one in made] == agents
        again = [await wire.call("scope/resolve", **key) for key in keys]
        assert [(one["session"]["id"], one["created"]) for one in again] == [
            (session_id, False) for session_id in made_ids
        ]
        # Names outside the key of a scope decide nothing.
        more = {"agent": "general", "project": alpha}
        for key, session_id in (
            (more | GLOBAL, made_ids[0]),
            (BRAINSTORM | {"project": beta}, made_ids[1]),
        ):
            assert await call(wire, "scope/resolve", "session.id", **key) == session_id


async def test_of_two_that_resolve_one_key_at_once_one_creates(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        with house.disk.hold("listdir") as gate:
            asked = [await one.request("scope/resolve", **GLOBAL) for one in (wire, other, wire)]
            await arrived(gate)
            await other.call("server/ping")
        answers = [
            await one.answer(number) for one, number in zip((wire, other, wire), asked, strict=True)
        ]
        assert sorted(one["created"] for one in answers) == [False, False, True]
        assert len({one["session"]["id"] for one in answers}) == 1
    assert len(house.session_files()) == 1


@pytest.mark.parametrize("end", ["restart", "kill", "power cut"])
async def test_a_key_has_its_session_after_any_end(house: House, end: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **BRAINSTORM)
        await append(wire, "n1", session_id=made["id"])
        left = {"restart": lambda: house.disk, "kill": house.disk.kill}.get(end, house.disk.crash)()
    house.files = left
    # What the catalog knew is gone as well.
    house.layout.catalog.unlink()
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await wire.call("scope/resolve", **BRAINSTORM)
        assert not again["created"]
        assert (again["session"]["id"], again["session"]["seq"]) == (made["id"], 1)
        assert again["session"]["scope"] == BRAINSTORM
    assert house.stored()[0]["scope"] == BRAINSTORM


async def test_a_refused_creation_leaves_no_session_behind(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        house.disk.fail("fsync")
        assert await refused(wire, "scope/resolve", **GLOBAL) == "storage_error"
        house.disk.heal()
        assert (await wire.call("scope/resolve", **GLOBAL))["created"]
    assert len(house.session_files()) == 1


async def test_a_deleted_session_is_made_anew_and_an_archived_one_is_still_the_session(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "scope/resolve", "session", **GLOBAL)
        await append(wire, "n1", session_id=first["id"])
        await wire.call("session/archive", session_id=first["id"])
        archived = await wire.call("scope/resolve", **GLOBAL)
        assert (archived["created"], archived["session"]["archived"]) == (False, True)
        await wire.call("session/delete", session_id=first["id"])
        anew = await wire.call("scope/resolve", **GLOBAL)
        assert (anew["created"], anew["session"]["seq"]) == (True, 0)
        trash = (await wire.call("session/trash"))["sessions"]
        assert [one["session_id"] for one in trash] == [first["id"]]


async def test_a_copy_of_a_scoped_session_belongs_to_no_scope(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **BRAINSTORM)
        await append(wire, "n1", session_id=made["id"])
        for entries in ("all", "path"):
            fork = await wire.call("session/fork", session_id=made["id"], entries=entries)
            assert "scope" not in fork["session"]
        exported = await wire.call("session/export", session_id=made["id"], format="native")
        copy = await wire.call("session/import", content=exported["content"])
        assert "scope" not in copy["session"]
        assert await call(wire, "scope/resolve", "session.id", **BRAINSTORM) == made["id"]
        # An update changes the agent that is shown, not the key.
        await wire.call("session/update", session_id=made["id"], agent="other")
        again = await call(wire, "scope/resolve", "session", **BRAINSTORM)
        assert (again["id"], again["agent"], again["scope"]) == (made["id"], "other", BRAINSTORM)


@pytest.mark.parametrize("method", ["scope/resolve", "scope/switch"])
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"scope": "team"}, "scope"),
        ({"scope": ""}, "scope"),
        ({"scope": "assistant"}, "agent"),
        ({"scope": "assistant", "agent": ""}, "agent"),
        ({"scope": "assistant", "agent": " "}, "agent"),
        ({"scope": "assistant", "agent": "../x"}, "agent"),
        ({"scope": "assistant", "agent": "a\\b"}, "agent"),
        ({"scope": "assistant", "agent": "abcdefgh\n"}, "agent"),
        ({"scope": "assistant", "agent": "a" * 201}, "agent"),
        ({"scope": "global", "agent": "a/b"}, "agent"),
        ({"scope": "project"}, "project"),
        ({"scope": "project", "project": ""}, "project"),
        ({"scope": "project", "project": "../x"}, "project"),
        ({"scope": "project", "project": "/\0"}, "project"),
        ({"scope": "project", "project": "/" + "a" * 5000}, "project"),
        ({"scope": "global", "key": "x"}, "key"),
    ],
)
async def test_a_key_that_is_none_is_refused_and_nothing_is_made(
    house: House, method: str, params: dict[str, Any], path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        told = await refused(wire, method, "{kind,path}", **params)
        assert told == ("invalid_params", path)
        assert await ids(wire) == []


async def test_a_project_without_a_folder_is_refused_and_its_sessions_stay(
    real_house: House, projects: list[str]
) -> None:
    alpha, _ = projects
    file = Path(alpha, "file")
    file.touch()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **of(alpha))
        for project, name in ((f"{alpha}/none", "ENOENT"), (str(file), "ENOTDIR")):
            refusal = await wire.refusal("scope/resolve", **of(project))
            assert (refusal.data["kind"], refusal.data["errno"]) == ("storage_error", name)
            assert project in refusal.message
        file.unlink()
        Path(alpha).rmdir()
        for method in ("scope/resolve", "scope/switch"):
            assert await refused(wire, method, "errno", **of(alpha)) == "ENOENT"
        assert await ids(wire) == [made["id"]]
        assert (await session_info(wire, made["id"]))["scope"] == of(alpha)


async def test_two_spellings_of_one_folder_are_one_project(
    real_house: House, projects: list[str]
) -> None:
    alpha, beta = projects
    link = Path(beta, "link")
    link.symlink_to(alpha)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **of(alpha))
        for spelling in (str(link), f"{alpha}/", f"{alpha}/../alpha"):
            assert await call(wire, "scope/resolve", "session.id", **of(spelling)) == made["id"]
        switched = await wire.call("scope/switch", **of(beta), from_project=str(link))
        assert switched["released"] == [made["id"]]


async def test_a_switch_saves_and_releases_one_project_and_loads_the_other(
    house: House, projects: list[str]
) -> None:
    alpha, beta = projects
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        wanted = {
            agent: await call(wire, "scope/resolve", "session", **of(beta, agent))
            for agent in ("coder", "architect")
        }
        everywhere = await call(wire, "scope/resolve", "session", **GLOBAL)
        old = await call(wire, "scope/resolve", "session", **of(alpha, "coder"))
        watched = await call(wire, "scope/resolve", "session", **of(alpha))
        await append(wire, "n1", session_id=old["id"], durability="os")
        await wire.call("subscribe", session_id=old["id"])
        await wire.call("session/presence", session_id=old["id"], state="typing")
        await wire.call("subscribe", session_id=watched["id"])
        await other.call("subscribe", session_id=watched["id"])
        for one in wanted.values():
            await wire.call("session/close", session_id=one["id"])
        before = await ids(wire)
        await other.call("catalog/subscribe")

        switched = await wire.call("scope/switch", **of(beta, "coder"))
        assert switched["session"]["id"] == wanted["coder"]["id"]
        assert not switched["created"]
        assert sorted(switched["released"]) == sorted([old["id"], watched["id"]])
        assert [one["id"] for one in switched["loaded"]] == [wanted["architect"]["id"]]
        assert switched["failed"] == []
        # The other client still watches one of them; global sessions know no projects.
        kept = {wanted["coder"]["id"], wanted["architect"]["id"], everywhere["id"], watched["id"]}
        assert set(await call(wire, "server/stats", "sessions")) == kept
        assert await ids(wire) == before
        told = await other.next_notification()
        assert told["method"] == "catalog/changed"
        assert told["params"]["session_id"] == wanted["coder"]["id"]
        assert told["params"]["change"] == "switched"
        left = house.disk.crash()
    (path,) = [path for path in left.paths if path.name.endswith(f"_{old['id']}.jsonl")]
    assert [json.loads(line)["id"] for line in left.content(path).splitlines()[1:]] == ["n1"]


async def test_a_switch_creates_what_is_missing_and_may_lead_out_of_all_projects(
    house: House, projects: list[str]
) -> None:
    alpha, beta = projects
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await wire.call("scope/switch", **of(alpha))
        assert (first["created"], first["released"], first["loaded"]) == (True, [], [])
        same = await wire.call("scope/switch", **of(alpha))
        assert (same["created"], same["released"]) == (False, [])
        second = await wire.call("scope/switch", **of(beta))
        assert (second["created"], second["released"]) == (True, [first["session"]["id"]])
        out = await wire.call("scope/switch", **GLOBAL)
        assert out["released"] == [second["session"]["id"]]
        assert set(await call(wire, "server/stats", "sessions")) == {out["session"]["id"]}
        back = await wire.call("scope/switch", **of(alpha))
        assert back["released"] == []


async def test_of_two_switches_of_one_connection_the_second_leaves_the_project_of_the_first(
    house: House, projects: list[str]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [await wire.request("scope/switch", **of(project)) for project in projects]
        answers = [await wire.answer(number) for number in asked]
        # Whichever was first: the session of its project is released, that of the other is open.
        released = [one["released"] for one in answers]
        first = released.index([])
        assert released[1 - first] == [answers[first]["session"]["id"]]
        open_now = set(await call(wire, "server/stats", "sessions"))
        assert open_now == {answers[1 - first]["session"]["id"]}


async def test_a_switch_that_is_refused_has_released_nothing(
    house: House, projects: list[str]
) -> None:
    alpha, beta = projects
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **of(beta))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("scope/switch", **of(alpha))
        old = await call(wire, "scope/resolve", "session", **of(alpha))
        await wire.call("subscribe", session_id=old["id"])
        path = Path(made["path"])
        with owned(house.files, path, house.layout.locks):
            assert await refused(wire, "scope/switch", **of(beta)) == "session_locked"
        assert await refused(wire, "scope/switch", "errno", **of(f"{beta}/none")) == "ENOENT"
        # It is open, so that nothing but the old session needs the disk.
        await session_info(wire, made["id"])
        await append(wire, "n1", session_id=old["id"], durability="os")
        house.disk.fail("fdatasync")
        assert await refused(wire, "scope/switch", **of(beta)) == "storage_error"
        house.disk.heal()
        # The subscription is still there, and the project is still the one that a switch leaves.
        await wire.call("session/unsubscribe", session_id=old["id"])
        assert (await wire.call("scope/switch", **of(beta)))["released"] == [old["id"]]


async def test_a_session_that_cannot_be_loaded_does_not_stop_a_switch(
    house: House, projects: list[str]
) -> None:
    alpha, beta = projects
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "scope/resolve", "session", **of(beta, "coder"))
    async with house.daemon() as daemon, daemon.connect() as wire:
        with owned(house.files, Path(made["path"]), house.layout.locks):
            switched = await wire.call("scope/switch", **of(beta), from_project=alpha)
            (failed,) = switched["failed"]
            assert (failed["session_id"], failed["kind"]) == (made["id"], "session_locked")
            assert switched["loaded"] == []


async def test_a_scope_tells_of_the_file_that_took_the_place_of_its_own(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        before = await call(wire, "scope/resolve", "session", **GLOBAL)
        await append(wire, "first", session_id=before["id"])
        path = Path(before["path"])
        other = path.with_name("other.tmp")
        other.write_bytes(path.read_bytes().replace(b'"first"', b'"other"'))
        other.replace(path)
        # An append looks at the file.
        await append(wire, "second", session_id=before["id"])
        now = await session_info(wire, before["id"])
        assert now["epoch"] != before["epoch"]
        assert await call(wire, "scope/resolve", "session.epoch", **GLOBAL) == now["epoch"]
