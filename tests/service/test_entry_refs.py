"""session/resolve_entries: an entry by its id, a label, or a part of its id; and short forms."""

from __future__ import annotations

import pytest

from tests.kit.calls import call, refused
from tests.kit.house import House
from tests.kit.roots import spelled_by_pi
from tests.kit.sessions import SESSION, chain

# Made within one minute: UUIDv7s begin alike, and two end alike.
MINUTE = [
    "019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b",
    "019a1b2c-3d4f-7c22-9111-5566778899aa",
    "019a1b2c-4d4f-7d33-9222-1266778899aa",
]
# As keys make them.
DIGESTS = ["3f2a77c01b9e4d5f8a6b7c8d9e0f1a2b", "3f2a77c0ffffffffffffffff00000001"]
FOUND = "entries[].{entry_id,seq,short}"


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_an_entry_goes_by_id_by_label_by_its_beginning_and_by_its_end(
    house: House, dialect: str
) -> None:
    lines = chain(["entry-1", *MINUTE, *DIGESTS])
    house.put(spelled_by_pi(lines) if dialect == "pi" else lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/label", session_id=SESSION, entry_id=MINUTE[1], label="the turn")
        refs = ("entry-1", "the turn", "entr", MINUTE[0][:13], "2e3f4a5b", "3f2a77c01", "00000001")
        found = await call(wire, "session/resolve_entries", FOUND, refs=refs)
    ids = ["entry-1", MINUTE[1], "entry-1", MINUTE[0], MINUTE[0], *DIGESTS]
    assert [entry_id for entry_id, _, _ in found] == ids
    assert [seq for _, seq, _ in found] == [1, 3, 1, 2, 2, 5, 6]


async def test_every_short_form_means_its_entry_and_is_as_short_as_the_session_allows(
    house: House,
) -> None:
    own = ["ab12cd34", "entry-1", "msg_01AbCdEfGhIjKlMnOpQrStUv", "778899aa"]
    ids = [*own, *MINUTE, *DIGESTS]
    house.put(chain(ids))
    async with house.daemon() as daemon, daemon.connect() as wire:
        shorts = await call(wire, "session/resolve_entries", "entries[].short", refs=ids)
        again = await call(wire, "session/resolve_entries", "entries[].entry_id", refs=shorts)
    assert again == ids
    # Names that somebody chose stay whole; of the rest the random end is shown.
    assert shorts[:4] == own
    assert shorts[4] == "2e3f4a5b"
    assert shorts[5:7] == ["566778899aa", "266778899aa"]
    assert shorts[7:] == ["9e0f1a2b", "00000001"]


async def test_a_short_form_is_no_label_and_no_beginning_of_another_id(house: House) -> None:
    ids = ["2e3f4a5b-other", "00000000000000000000000012345678", MINUTE[0]]
    house.put(chain(ids))
    async with house.daemon() as daemon, daemon.connect() as wire:
        label = {"entry_id": ids[0], "label": "12345678"}
        await wire.call("session/label", session_id=SESSION, **label)
        shorts = await call(wire, "session/resolve_entries", "entries[].short", refs=ids)
        assert shorts == [ids[0], "012345678", "d2e3f4a5b"]
        again = await call(wire, "session/resolve_entries", "entries[].entry_id", refs=shorts)
    assert again == ids


async def test_what_means_several_entries_names_them_and_what_means_none_is_not_found(
    house: House,
) -> None:
    house.put(chain(["entry-1", "entry-2", "ab", *MINUTE]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for entry_id in ("entry-1", "ab"):
            await wire.call("session/label", session_id=SESSION, entry_id=entry_id, label="twin")
        for ref, ids in (("entry", ["entry-1", "entry-2"]), ("twin", ["entry-1", "ab"])):
            kind, path, matches = await refused(
                wire, "session/resolve_entries", "{kind,path,matches}", refs=["ab", ref]
            )
            assert (kind, path) == ("ambiguous_ref", "refs[1]")
            assert [one["entry_id"] for one in matches] == ids
            assert matches[0] == {
                "entry_id": "entry-1",
                "seq": 1,
                "short": "entry-1",
                "label": "twin",
            }
        # Three characters begin too much, five end too much; a name has no random end.
        for ref in ("ent", "a", "f4a5b", "ntry-1", "ENTRY-1", "nobody"):
            told = await refused(
                wire, "session/resolve_entries", "{kind,entry_id,path}", refs=[ref]
            )
            assert told == ("entry_not_found", ref, "refs[0]")
        assert await refused(wire, "session/resolve_entries", "path", refs=[]) == "refs"


async def test_of_a_long_session_the_entries_are_looked_for_beside_the_loop(house: House) -> None:
    ids = [f"{at:032x}" for at in range(1, 3001)]
    house.put(chain(ids))
    async with house.daemon() as daemon, daemon.connect() as wire:
        refs = [ids[0], ids[-1], "00000000000000000000000000000bb8"]
        found = await call(wire, "session/resolve_entries", FOUND, refs=refs)
    assert [entry_id for entry_id, _, _ in found] == [ids[0], ids[-1], ids[-1]]
    assert [short for _, _, short in found] == ["00000001", "00000bb8", "00000bb8"]


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_every_method_takes_an_id_of_any_length_that_a_foreign_line_has(
    house: House, dialect: str
) -> None:
    long = "x" * 1500
    lines = chain(["entry-1", long])
    house.put(spelled_by_pi(lines) if dialect == "pi" else lines)
    asked = {"session_id": SESSION}
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = (await wire.call("session/open", entry_id=long))["session"]
        assert (info["leaf_id"], info["problems"]) == (long, 0)
        assert (await wire.call("session/entry", **asked, entry_id=long))["entry"]["id"] == long
        for method in ("session/path", "build_context"):
            await wire.call(method, **asked, entry_id=long)
        found = await call(wire, "session/resolve_entries", "entries[].entry_id", refs=[long])
        assert found == [long]
        await wire.call("session/label", **asked, entry_id=long, label="here")
        labels = (await wire.call("session/labels", **asked))["labels"]
        assert [one["entry_id"] for one in labels] == [long]
        await wire.call("session/branch", **asked, entry_id="entry-1", head="main")
        await wire.call("session/branch", **asked, entry_id=long, head="main")
        await wire.call("session/fork", **asked, at=long)
        message = {"role": "user", "content": "on", "timestamp": 1768473000000}
        await wire.call("append", **asked, message=message, parent_id=long)
        await wire.call("session/rewind", **asked, to=long)
        assert await refused(wire, "session/entry", entry_id=f"{long}x") == "entry_not_found"
        # An id that a client chooses keeps its bound.
        entry = {"type": "custom", "custom_type": "x", "id": long + "y"}
        assert await refused(wire, "append", entry=entry) == "invalid_params"
