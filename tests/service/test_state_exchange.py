"""JSON files of other programs: loaded as namespaces, reported where they are not, and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import STATE_VALUE_BYTES_MAX
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.state import NS, put, values

CONSTRUCT = {
    "settings": {"theme": "dark", "font": {"size": 1.5}},
    "credentials": {"openai": "b64:c2VjcmV0"},
    "providers": {"openai": {"models": ["m"]}},
    "sessions": [{"id": "s1", "title": "t"}],
    "mcp-servers": {"files": {"command": "srv"}},
    "spaces": {},
    "hooks": {"on_start": []},
    "skills": {"a": True},
    "context": {"project": "/home/ana/shop", "mode": "plan", "component": None},
}


async def test_a_state_folder_of_construct_becomes_namespaces(
    real_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    for name, content in CONSTRUCT.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("state/load", path=str(folder))
        assert {row["namespace"] for row in answer["loaded"]} == {
            *("settings", "providers", "mcp-servers", "spaces", "hooks", "skills", "context")
        }
        told = {Path(one["path"]).name: one["reason"] for one in answer["problems"]}
        assert set(told) == {"credentials.json", "sessions.json"}
        assert "secret/set" in told["credentials.json"]
        assert "session/import" in told["sessions.json"]
        for name in ("settings", "context", "mcp-servers"):
            assert await values(wire, name) == CONSTRUCT[name]
        again = await wire.call("state/load", path=str(folder))
        assert [row["changed"] for row in again["loaded"]] == [0] * 7
        alone = await wire.call("state/load", path=str(folder / "credentials.json"))
        assert (alone["loaded"], len(alone["problems"])) == ([], 1)
    stored = b"".join(path.read_bytes() for path in real_house.home.rglob("*") if path.is_file())
    assert b"c2VjcmV0" not in stored
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


async def test_a_file_is_loaded_beside_the_keys_that_are_there(
    real_house: House, tmp_path: Path
) -> None:
    file = tmp_path / "Any Name.JSON"
    file.write_bytes(b'{"a": {"n" : 1.50},\n "b":2}')
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "b", 1)
        kept = await put(wire, "c", 3, tags=["t"])
        refused = await wire.refusal("state/load", path=str(file))
        assert refused.data["path"] == "namespace"
        await wire.call("state/subscribe")
        (row,) = (await wire.call("state/load", path=str(file), namespace=NS))["loaded"]
        assert (row["namespace"], row["keys"], row["changed"]) == (NS, 2, 2)
        assert row["revision"] > kept
        assert [one["params"]["key"] for one in wire.notifications] == ["a", "b"]
        assert await values(wire) == {"a": {"n": 1.5}, "b": 2, "c": 3}
        stored = (real_house.layout.state / f"{NS}.json").read_bytes()
        assert b'{"n" : 1.50}' in stored


BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b'{"a": ', "not JSON"),
    "empty": (b"", "not JSON"),
    "a list": (b"[1]", "no JSON object"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8"),
    "half a character": (b'{"a": "\\ud83d"}', "half of a surrogate pair"),
    "deep": (b'{"a": ' + b"[" * 600 + b"]" * 600 + b"}", "nested too deeply"),
}


@pytest.mark.parametrize(("content", "reason"), BAD.values(), ids=BAD)
async def test_a_file_that_is_no_object_is_reported_and_the_others_are_loaded(
    real_house: House, tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    (tmp_path / "good.json").write_bytes(b'{"a": 1}')
    (tmp_path / "Bad Name.json").write_bytes(b'{"a": 1}')
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("state/load", path=str(tmp_path))
        assert [row["namespace"] for row in answer["loaded"]] == ["good"]
        told = {Path(one["path"]).name: one["reason"] for one in answer["problems"]}
        assert set(told) == {"bad.json", "Bad Name.json", "home"}
        assert reason in told["bad.json"]


async def test_a_file_with_the_name_of_the_daemons_own_namespace_is_not_loaded(
    real_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    own = folder / "sessiond.queues.json"
    own.write_text('{"x": 1}')
    (folder / "settings.json").write_text('{"theme": "dark"}')
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("state/load", path=str(own))
        assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "namespace")
        answer = await wire.call("state/load", path=str(folder))
        assert [row["namespace"] for row in answer["loaded"]] == ["settings"]
        assert [Path(one["path"]).name for one in answer["problems"]] == [own.name]
    assert not list(real_house.home.rglob("sessiond.queues*"))


async def test_members_that_are_no_values_are_reported(real_house: House, tmp_path: Path) -> None:
    long = b'"' + b"x" * STATE_VALUE_BYTES_MAX + b'"'
    file = tmp_path / "m.json"
    file.write_bytes(b'{"../x": 1, "": 2, "whole": "\\ud83d\\ude00", "long": %b}' % long)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("state/load", path=str(file))
        assert [one["key"] for one in answer["problems"]] == ["../x", "", "long"]
        assert await values(wire, "m") == {"whole": "😀"}


async def test_a_file_that_does_not_fit_changes_nothing(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_bytes(b'{"x": 1, "y": 2, "z": 3}')
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        set_limits(monkeypatch, STATE_KEYS_MAX=2)
        refused = await wire.refusal("state/load", path=str(tmp_path / "a.json"))
        assert refused.data["kind"] == "too_large"
        (tmp_path / "b.json").write_bytes(b'{"x": 1}')
        answer = await wire.call("state/load", path=str(tmp_path))
        assert [row["namespace"] for row in answer["loaded"]] == ["b"]
        assert "a.json" in str(answer["problems"])
        assert await values(wire, "a") == {}


@pytest.mark.parametrize(
    ("path", "more", "kind"),
    [
        ("not/absolute", {}, "invalid_params"),
        ("/no/such/file.json", {}, "storage_error"),
        ("/dev/null", {"namespace": "x"}, "storage_error"),
        ("/", {"namespace": "x"}, "invalid_params"),
    ],
)
async def test_a_path_that_cannot_be_loaded_is_refused(
    real_house: House, path: str, more: dict[str, Any], kind: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("state/load", path=path, **more)
        assert refused.data["kind"] == kind


async def test_values_are_saved_as_plain_json_behind_the_changes_before(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.send(
            b'{"method":"state/set","params":{"namespace":"%b","key":"a","value":{"n" : 1.50}}}'
            % NS.encode()
        )
        path = tmp_path / "saved.json"
        answer = await wire.call("state/save", namespace=NS, path=str(path))
        assert answer == {"path": str(path), "keys": 1}
        assert path.read_bytes() == b'{\n  "a": {"n" : 1.50}\n}\n'
        assert path.stat().st_mode & 0o777 == 0o600
        refused = await wire.refusal("state/save", namespace=NS, path=str(path))
        assert refused.data["errno"] == "EEXIST"
        assert "saved.json" in refused.message
        assert "is not written over" in refused.message
        assert path.read_bytes() == b'{\n  "a": {"n" : 1.50}\n}\n'
        empty = tmp_path / "empty.json"
        assert (await wire.call("state/save", namespace="none", path=str(empty)))["keys"] == 0
        assert empty.read_bytes() == b"{}\n"
        await wire.call("state/load", path=str(path), namespace="copy")
        assert await values(wire, "copy") == await values(wire)


async def test_a_save_waits_for_the_write_before_it(house: House) -> None:
    path = house.home / "saved.json"
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", 1)
        with house.disk.hold("fsync_folder") as gate:
            await wire.request("state/set", namespace=NS, key="a", value=2)
            await arrived(gate)
            saved = await wire.request("state/save", namespace=NS, path=str(path))
            await wire.call("server/ping")
            assert not house.disk.exists(path)
        await wire.answer(saved)
        assert json.loads(house.disk.content(path)) == {"a": 2}
