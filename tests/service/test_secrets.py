"""Secrets: encrypted on the disk, bound to their place, opened for an answer alone."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from sessiond.errors import SecretKeyUnavailable
from sessiond.state.keys import KeySettings
from sessiond.testing.daemon import Wire
from tests.kit.calls import part_of, refused
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.state import NS, value_of

MARKER = "sk-MARKER-9f8e7d6c5b4a"
KEY_1, KEY_2, KEY_3 = "11" * 32, "22" * 32, "33" * 32
FILE = f"{NS}.json"


def key_file(house: House) -> Path:
    return house.home.with_name(f"{house.home.name}.key")


async def put(wire: Wire, key: str, value: str = MARKER, namespace: str = NS, **more: Any) -> int:
    answer = await wire.call("secret/set", namespace=namespace, key=key, value=value, **more)
    revision: int = answer["revision"]
    return revision


def use_command(house: House, *keys: str, fails: bool = False) -> list[Sequence[str]]:
    """Let a command write these keys; return the list of its runs."""
    runs: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> bytes:
        runs.append(command)
        if fails:
            raise SecretKeyUnavailable("exit status 1", reason="command_failed")
        return "".join(f"{key}\n" for key in keys).encode()

    settings = KeySettings(Path("/unused"), command=("pass", "show", "sessiond"), run=run)
    house.environment = structs.replace(house.environment, key_settings=lambda: settings)
    return runs


# -- stored and read ----------------------------------------------------------------------------


async def test_secrets_are_there_after_a_restart_and_after_a_power_cut(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        absent = await wire.call("secret/get", namespace=NS, key="a")
        assert (absent["value"], absent["revision"]) == (None, 0)
        assert not house.disk.exists(key_file(house))
        first = await put(wire, "a")
        await put(wire, "b", "Ünïcode ✓\n")
        refusal = await wire.refusal(
            "secret/set", namespace=NS, key="a", value="x", expected_revision=0
        )
        assert refusal.data["actual_revision"] == first
        cut = house.disk.crash()
    assert MARKER.encode() not in house.disk.content(house.layout.secrets / FILE)
    for one in (house, House(house.home, cut)):
        async with one.daemon() as daemon, daemon.connect() as wire:
            assert await value_of(wire, "a", store="secret") == MARKER
            assert await value_of(wire, "b", store="secret") == "Ünïcode ✓\n"
            gone = await wire.call("secret/delete", namespace=NS, key="b")
            assert gone["deleted"]
            assert await value_of(wire, "b", store="secret") is None
            listed = await wire.call("secret/list")
            assert [(row["namespace"], row["key"]) for row in listed["secrets"]] == [(NS, "a")]
            assert MARKER not in json.dumps(listed)


async def test_each_write_has_a_nonce_of_its_own(house: House) -> None:
    nonces: list[str] = []
    async with house.daemon() as daemon, daemon.connect() as wire:
        for _ in range(3):
            await put(wire, "a")
            await put(wire, "b")
            stored = json.loads(house.disk.content(house.layout.secrets / FILE))
            nonces += [stored["records"][key]["value"]["nonce"] for key in "ab"]
            nonces.append(stored["seal"]["nonce"])
    # A record that is not written anew keeps its nonce: six values, and six seals of which three are seen.
    assert len(set(nonces)) == 6 + 3


async def test_reads_and_lists_of_nothing_need_no_key(house: House) -> None:
    runs = use_command(house, fails=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await wire.call("secret/list"))["secrets"] == []
        assert await value_of(wire, "a", store="secret") is None
        assert runs == []
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value=MARKER)
        assert refusal.data["kind"] == "secret_key_unavailable"
        assert MARKER not in refusal.message


async def test_a_secret_is_bounded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value="x" * 70_000)
        assert (refusal.data["kind"], refusal.data["path"]) == ("invalid_params", "value")
        long = {"token": MARKER * 4_000}
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value=long)
        assert (refusal.data["path"], MARKER in refusal.message) == ("value", False)
        set_limits(monkeypatch, STATE_NAMESPACE_BYTES_MAX=1_000)
        kind = await refused(wire, "secret/set", namespace=NS, key="a", value="x" * 1_000)
        assert kind == "too_large"


async def test_only_a_client_with_write_access_reads_a_secret(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await put(wire, "a")
        await other.call("initialize", access="read")
        refusal = await other.refusal("secret/get", namespace=NS, key="a")
        assert refusal.data["need"] == "write"
        assert len((await other.call("secret/list"))["secrets"]) == 1


# -- records that are not as they were stored ---------------------------------------------------


TAMPER: dict[str, tuple[str, ...]] = {
    "swap": ("swap", "records.a.value", "records.b.value"),
    "swap_whole": ("swap", "records.a", "records.b"),
    "roll_back": ("bring back", "records.a"),
    "remove": ("remove", "records.b"),
    "bring_back": ("bring back", "records.gone"),
    "unseal": ("remove", "seal"),
    "roll_back_the_seal": ("bring back", "seal"),
    "flip": ("flip", "records.a.value.data"),
    "change_a_time": ("set", "records.a.updated_at", "2027-01-01T00:00:00.000Z"),
    "change_the_file_id": ("set", "file_id", "0" * 32),
    "empty_the_file_id": ("set", "file_id", ""),
    "raise_the_revision": ("raise", "revision"),
    "no_record": ("set", "records.a.value", "text"),
}
"""Changes of a file: the change, the member of the file, and the new value."""


def tamper(stored: dict[str, Any], old: dict[str, Any], act: str, at: str, more: str = "") -> None:
    """Change a member of a stored file, for which the file as it was before may serve."""
    above, _, name = at.rpartition(".")
    holder = part_of(stored, above)
    match act:
        case "set":
            holder[name] = more
        case "remove":
            del holder[name]
        case "bring back":
            holder[name] = part_of(old, at)
        case "swap":
            above, _, partner = more.rpartition(".")
            beside = part_of(stored, above)
            holder[name], beside[partner] = beside[partner], holder[name]
        case "flip":
            holder[name] = ("B" if holder[name][0] == "A" else "A") + holder[name][1:]
        case "raise":
            holder[name] += 1
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("name", TAMPER)
async def test_a_file_that_is_not_as_it_was_stored_is_refused_and_kept(
    house: House, name: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", "old")
        await put(wire, "gone", "gone")
        old = json.loads(house.disk.content(house.layout.secrets / FILE))
        await put(wire, "a", MARKER)
        await put(wire, "b", "other")
        await wire.call("secret/delete", namespace=NS, key="gone")
        await put(wire, "a", "fine", namespace="fine")
    stored = json.loads(house.disk.content(house.layout.secrets / FILE))
    tamper(stored, old, *TAMPER[name])
    changed = json.dumps(stored).encode()
    house.disk.put(house.layout.secrets / FILE, changed)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method, more in (
            ("secret/get", {"key": "b"}),
            ("secret/get", {"key": "gone"}),
            ("secret/set", {"key": "c", "value": "x"}),
            ("secret/delete", {"key": "a"}),
        ):
            assert await refused(wire, method, namespace=NS, **more) == "secret_corrupt"
        assert await refused(wire, "secret/rotate") == "secret_corrupt"
        assert await value_of(wire, "a", "fine", store="secret") == "fine"
    assert house.disk.content(house.layout.secrets / FILE) == changed


async def test_a_file_of_another_namespace_or_profile_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
        await put(wire, "a", "other", namespace="other")
    theirs = json.loads(house.disk.content(house.layout.secrets / "other.json"))
    house.disk.put(house.layout.secrets / FILE, json.dumps(theirs | {"namespace": NS}).encode())
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "secret/get", namespace=NS, key="a") == "secret_corrupt"


# -- keys ---------------------------------------------------------------------------------------


async def test_a_key_file_is_made_for_its_owner_alone(real_house: House) -> None:
    path = real_house.home.parent / "config" / "keys" / "default.key"
    settings = KeySettings(path)
    real_house.environment = structs.replace(real_house.environment, key_settings=lambda: settings)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert (real_house.layout.secrets / FILE).stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/get", namespace=NS, key="a")
        assert (refusal.data["reason"], refusal.data["path"]) == ("unsafe_key", str(path))
        assert f"`chmod 600 {path}`" in refusal.message
        path.chmod(0o600)
        assert await value_of(wire, "a", store="secret") == MARKER


async def test_a_key_file_of_another_user_is_refused(real_house: House) -> None:
    path = real_house.home.parent / "the.key"
    path.write_text(KEY_1)
    path.chmod(0o600)
    stat = real_house.files.fstat

    class Foreign:
        def __init__(self, found: Any) -> None:
            self._found = found
            self.st_uid = found.st_uid + 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._found, name)

    settings = KeySettings(path)
    real_house.environment = structs.replace(real_house.environment, key_settings=lambda: settings)
    real_house.files.fstat = lambda fd: Foreign(stat(fd))  # type: ignore[method-assign]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value="x")
        assert refusal.data["reason"] == "unsafe_key"
        assert "another user" in refusal.message


async def test_a_key_file_in_the_data_folder_is_refused(house: House) -> None:
    settings = KeySettings(house.home / "profiles" / "my.key")
    house.environment = structs.replace(house.environment, key_settings=lambda: settings)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value="x")
        assert refusal.data["reason"] == "unsafe_key"
        assert not house.disk.exists(house.home / "profiles" / "my.key")


@pytest.mark.parametrize("text", ["", "abc", "z" * 64, KEY_1[:-2], f"{KEY_1}\nrubbish", "#only"])
async def test_a_key_file_without_a_key_is_refused_and_kept(house: House, text: str) -> None:
    house.disk.put(key_file(house), text.encode())
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/set", namespace=NS, key="a", value="x")
        assert refusal.data["reason"] == "bad_key"
        assert "64 hex digits" in refusal.message
    assert house.disk.content(key_file(house)) == text.encode()


async def test_a_missing_key_is_not_made_anew_where_something_is_encrypted(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
    key = house.disk.content(key_file(house))
    house.disk.unlink(key_file(house))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method, more in (("secret/get", {}), ("secret/set", {"value": "x"})):
            refusal = await wire.refusal(method, namespace=NS, key="a", **more)
            assert (refusal.data["kind"], refusal.data["reason"]) == (
                "secret_key_unavailable",
                "no_key",
            )
        assert not house.disk.exists(key_file(house))
        assert len((await wire.call("secret/list"))["secrets"]) == 1
        house.disk.put(key_file(house), key)
        assert await value_of(wire, "a", store="secret") == MARKER


async def test_a_file_that_cannot_be_read_counts_as_encrypted(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
    house.disk.unlink(key_file(house))
    # The folder is listed at the start, then its only file is read.
    house.disk.fail("pread", errno=errno.EIO)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/set", namespace="new", key="a", value="x")
        assert refusal.data["reason"] == "no_key"
        assert not house.disk.exists(key_file(house))


async def test_a_wrong_key_is_a_clear_error_that_shows_no_key(house: House) -> None:
    use_command(house, KEY_1)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
    runs = use_command(house, KEY_2)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("secret/get", namespace=NS, key="a")
        assert (refusal.data["kind"], refusal.data["reason"]) == (
            "secret_key_unavailable",
            "wrong_key",
        )
        assert "bring the other key back" in refusal.message
        assert KEY_2[:20] not in refusal.message
        # The command may give another key by now, so it is asked once more.
        assert len(runs) == 2
        stored = house.disk.content(house.layout.secrets / FILE)
        await wire.refusal("secret/set", namespace=NS, key="a", value="x")
        await wire.refusal("secret/rotate")
        assert house.disk.content(house.layout.secrets / FILE) == stored
    use_command(house, KEY_2, KEY_1)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await value_of(wire, "a", store="secret") == MARKER


async def test_a_command_is_asked_once_and_never_at_a_start(house: House) -> None:
    runs = use_command(house, KEY_1)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for key in "abc":
            await put(wire, key)
            await value_of(wire, key, store="secret")
        assert len(runs) == 1
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("secret/list")
        assert len(runs) == 1


# -- rotation -----------------------------------------------------------------------------------


async def test_a_rotation_encrypts_everything_anew_and_drops_the_old_key(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        revisions = [await put(wire, "a"), await put(wire, "b", namespace="other")]
        before = house.disk.content(key_file(house))
        stored = house.disk.content(house.layout.secrets / FILE).decode()
        old_ids = set(re.findall('"key_id":"([0-9a-f]{16})"', stored))
        assert len(old_ids) == 1
        done = await wire.call("secret/rotate")
        assert (done["secrets"], done["keys"]) == (2, 1)
        after = house.disk.content(key_file(house))
        assert before.split()[-1] not in after
        for namespace in (NS, "other"):
            stored = house.disk.content(house.layout.secrets / f"{namespace}.json").decode()
            ids = re.findall('"key_id":"([0-9a-f]{16})"', stored)
            assert len(ids) == 2
            assert not set(ids) & old_ids
        got = [
            await wire.call("secret/get", namespace=NS, key="a"),
            await wire.call("secret/get", namespace="other", key="b"),
        ]
        assert [one["value"] for one in got] == [MARKER, MARKER]
        assert [one["revision"] for one in got] == revisions
        cut = House(house.home, house.disk.crash())
    async with cut.daemon() as daemon, daemon.connect() as wire:
        assert await value_of(wire, "a", store="secret") == MARKER
        assert await value_of(wire, "b", "other", store="secret") == MARKER


async def test_a_key_file_that_was_named_keeps_the_old_keys(house: House) -> None:
    settings = KeySettings(house.home.with_name("shared.key"), is_shared=True)
    house.environment = structs.replace(house.environment, key_settings=lambda: settings)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
        assert (await wire.call("secret/rotate"))["keys"] == 2
        assert await value_of(wire, "a", store="secret") == MARKER


async def test_a_key_file_without_room_for_a_key_stays_as_it_is(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, KEY_FILE_BYTES_MAX=400)
    settings = KeySettings(house.home.with_name("shared.key"), is_shared=True)
    house.environment = structs.replace(house.environment, key_settings=lambda: settings)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
        for keys in (2, 3, 4):
            assert (await wire.call("secret/rotate"))["keys"] == keys
        kept = house.disk.content(settings.file)
        refusal = await wire.refusal("secret/rotate")
        assert (refusal.data["kind"], refusal.data["reason"]) == (
            "secret_key_unavailable",
            "full_key_file",
        )
        assert house.disk.content(settings.file) == kept
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await value_of(wire, "a", store="secret") == MARKER


async def test_a_rotation_by_command_takes_the_first_key(house: House) -> None:
    use_command(house, KEY_1)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a")
    use_command(house, KEY_2, KEY_1)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await wire.call("secret/rotate"))["secrets"] == 1
    use_command(house, KEY_2)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await value_of(wire, "a", store="secret") == MARKER


OAUTH = {"access_token": MARKER, "expires": 1.50, "scopes": ["a", None], "é": True}


@pytest.mark.parametrize("value", [OAUTH, [MARKER], 7, True, None, "", "\x00", "ÿ", '{"a":1}'])
async def test_a_secret_is_any_json_value(house: House, value: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("secret/set", namespace=NS, key="login", value=value)
        found = await wire.call("secret/get", namespace=NS, key="login")
        assert (found["value"], type(found["value"])) == (value, type(value))
        assert found["revision"] > 0
        await wire.call("secret/rotate")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await wire.call("secret/get", namespace=NS, key="login"))["value"] == value


async def test_a_secret_that_is_too_long_is_refused_by_its_length(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SECRET_CHARS_MAX=20)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for value in ("é" * 20, {"a": "é" * 12}):
            await wire.call("secret/set", namespace=NS, key="k", value=value)
        for value in ("é" * 21, {"a": "é" * 13}):
            refusal = await wire.refusal("secret/set", namespace=NS, key="k", value=value)
            assert (refusal.data["path"], "at most 20 characters" in refusal.message) == (
                "value",
                True,
            )
