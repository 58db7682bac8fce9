"""Files as they are found: torn, damaged, foreign, too new, or no session at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.calls import append, call, events, refused, session_info, watch
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD, HEADER, TIME, line

pytestmark = pytest.mark.platform

IDS = "entries[].{seq,entry.id}"


# -- no session at all ---------------------------------------------------------------------

NO_SESSION: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "a blank first line": (b"\n" + GOOD, "is empty"),
    "garbage": (b"garbage\n" + GOOD, "header"),
    "garbage without a newline": (b"garbage", "header"),
    "half a header": (HEADER[:40], "header"),
    "an entry first": (line(b"n1", b"null"), "no session header"),
    "another program's JSON": (b'{"a":1}\n', "no session header"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "byte order mark"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "UTF-16"),
    "NUL bytes": (bytes(4096), "header"),
    "a newer version": (HEADER.replace(b'"version":1', b'"version":2'), "newer version"),
    "a newer version without a newline": (
        HEADER.replace(b'"version":1', b'"version":99').strip(),
        "newer version",
    ),
    "20 MB of garbage": (b"x" * 20_000_000, "header"),
}


@pytest.mark.parametrize("case", NO_SESSION)
async def test_a_file_that_is_no_session_is_refused_by_name_and_line_and_stays_as_it_is(
    house: House, case: str
) -> None:
    content, why = NO_SESSION[case]
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("session/get", session_id=SESSION)
        assert (refusal.code, refusal.data["kind"]) == (-32025, "session_corrupt")
        assert (refusal.data["path"], refusal.data["line"]) == (str(path), 1)
        assert why in refusal.message
        assert f"{path.name}, line 1" in refusal.message
        assert await refused(wire, "append", message={"role": "user"}) == "session_corrupt"
        listed = await wire.call("session/list")
        assert listed["sessions"] == []
        assert [one["path"] for one in listed["unreadable"]] == [str(path)]
    assert house.disk.content(path) == content
    assert house.session_files() == [path]
    assert house.disk.open_descriptors == 0


@pytest.mark.parametrize("op", ["open_update", "fstat", "pread", "open_append", "fdatasync"])
async def test_a_file_that_cannot_be_opened_is_a_storage_error_that_names_it(
    house: House, op: str
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        house.disk.fail(op, errno=5)
        refusal = await wire.refusal("session/get", session_id=SESSION)
        assert (refusal.code, refusal.data["errno"]) == (-32060, "EIO")
        assert path.name in refusal.message
        assert (await session_info(wire))["seq"] == 2
    assert house.disk.content(path) == GOOD
    assert house.disk.open_descriptors == 0


@pytest.mark.parametrize("what", ["folder", "pipe"])
async def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    real_house: House, what: str
) -> None:
    path: Path = real_house.layout.sessions / f"2026-01-01T00-00-00-000000_{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.mkdir() if what == "folder" else os.mkfifo(path)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("session/get", session_id=SESSION)
        assert refusal.code == -32060
        assert path.name in refusal.message


@pytest.mark.parametrize("text", ["/p/\0x", "/p/" + "x" * 300, "/nowhere/x"])
@pytest.mark.parametrize("method", ["session/open", "session/import"])
async def test_a_path_that_leads_nowhere_is_an_error_of_the_caller_or_the_disk(
    real_house: House, method: str, text: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal(method, path=text)
        assert refusal.data["kind"] in {"invalid_params", "storage_error"}


# -- ends ----------------------------------------------------------------------------------


async def test_a_torn_line_is_copied_aside_before_it_is_cut(house: House) -> None:
    torn = line(b"n3", b'"n2"')[:-20]
    path = house.put(GOOD + torn, killed=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["problems"], info["read_only"]) == (2, 1, False)
        # Who only reads changes nothing.
        assert house.disk.content(path) == GOOD + torn
        assert (await append(wire, "n3"))["seq"] == 3
        copies = [p for p in house.disk.paths if ".torn-" in p.name]
        assert [house.disk.content(copy) for copy in copies] == [torn]
        assert house.disk.content(path).startswith(GOOD + b'{"type":"message","id":"n3"')
        # The copy is no session.
        assert len((await wire.call("session/list"))["sessions"]) == 1


@pytest.mark.parametrize("content", [GOOD[:-1], HEADER[:-1]], ids=["an entry", "the header"])
async def test_a_whole_last_line_without_a_newline_is_kept_and_gets_one(
    house: House, content: bytes
) -> None:
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert info["problems"] == 0
        assert house.disk.content(path) == content
        assert (await append(wire, "next"))["seq"] == info["seq"] + 1
        assert house.disk.content(path).startswith(content + b"\n{")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["seq"] == info["seq"] + 1


@pytest.mark.parametrize("torn", [b"", b'{"type":"mess'], ids=["", "and a torn line"])
@pytest.mark.parametrize("whole", [1, 2])
async def test_the_first_lines_of_an_append_whose_last_never_came_are_cut_with_a_copy(
    house: House, whole: int, torn: bytes
) -> None:
    atom = [line(b"a%d" % k, b"null", b',"atom":[%d,3]' % k) for k in (1, 2, 3)]
    atom[0] = line(b"a1", b"null", b',"atom":[1,3],"atom_of":"session-a"')
    path = house.put(GOOD + b"".join(atom[:whole]) + torn)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["leaf_id"], info["read_only"]) == (2, "n2", False)
        assert info["problems"] == (2 if torn else 1)
        assert house.disk.content(path) == GOOD + b"".join(atom[:whole]) + torn
        # What is not served is not found either.
        assert await call(wire, "session/entries", IDS) == [(1, "n1"), (2, "n2")]
        entries = [
            {"type": "message", "id": f"a{k}", "message": {"role": "user"}} for k in (1, 2, 3)
        ]
        answer = await wire.call("append", session_id=SESSION, entries=entries)
        assert (answer["seq"], answer["duplicate"]) == (5, False)
        assert house.disk.content(path).startswith(GOOD + b'{"type":"message","id":"a1"')
        copies = [house.disk.content(p) for p in house.disk.paths if ".torn-" in p.name]
        assert copies == [b"".join(atom[:whole]) + torn]


async def test_a_whole_append_at_the_end_stays(house: House) -> None:
    atom = [line(b"a%d" % k, b"null", b',"atom":[%d,2]' % k) for k in (1, 2)]
    path = house.put(GOOD + b"".join(atom))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["seq"] == 4
    assert house.disk.content(path) == GOOD + b"".join(atom)


async def test_in_a_file_of_another_program_nothing_is_ever_cut(house: House) -> None:
    header = b'{"type":"session","version":3,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    half = b'{"type":"message","id":"aaaa'
    path = house.put(header + half)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["dialect"], info["seq"], info["problems"]) == ("pi", 0, 1)
        assert not info["read_only"]
        assert house.disk.content(path) == header + half
        message = {"role": "user", "content": "x", "timestamp": 1}
        answer = await wire.call("append", session_id=SESSION, message=message)
        assert answer["seq"] == 2
        assert (await session_info(wire))["problems"] == 1
    assert house.disk.content(path).startswith(header + half + b" \n{")


async def test_lines_that_a_failed_append_left_in_another_programs_file_count_as_stored(
    house: House,
) -> None:
    header = b'{"type":"session","version":3,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    path = house.put(header)
    message = {"role": "user", "content": "x", "timestamp": 1}
    entries = [{"type": "message", "id": f"aaaaaaa{n}", "message": message} for n in range(2)]
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        # The sync fails, and so does the first look at what is left.
        house.disk.fail("fdatasync")
        house.disk.fail("open_append")
        refusal = await wire.refusal("append", session_id=SESSION, entries=entries)
        assert refusal.data["kind"] == "storage_error"
        # The next append finds the lines: they come first, and it stands behind them.
        third = {"type": "message", "id": "aaaaaaa2", "message": message}
        assert (await wire.call("append", session_id=SESSION, entry=third))["seq"] == 3
        assert (await wire.call("append", session_id=SESSION, entries=entries))["duplicate"]
        assert await events(watcher, 3) == [("aaaaaaa0", 1), ("aaaaaaa1", 2), ("aaaaaaa2", 3)]
        live = await call(wire, "session/entries", IDS)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/entries", IDS) == live
    assert house.disk.content(path).startswith(header)


# -- damage inside ---------------------------------------------------------------------------

BAD_LINES: dict[str, bytes] = {
    "no JSON": b"garbage\n",
    "half a line": line(b"n9", b"null")[:30] + b"\n",
    "no object": b"[1,2]\n",
    "no id": b'{"type":"message","message":{"role":"user"}}\n',
    "NUL bytes": bytes(100) + b"\n",
    "not UTF-8": b'{"type":"message","id":"\xff\xfe"}\n',
    "20 MB": b'{"type":"' + b"x" * 20_000_000 + b"\n",
}


@pytest.mark.parametrize("case", BAD_LINES)
async def test_a_bad_line_inside_stays_is_reported_and_makes_the_session_read_only(
    house: House, case: str
) -> None:
    content = GOOD + BAD_LINES[case] + line(b"n4", b'"n2"')
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["problems"], info["read_only"]) == (4, 1, True)
        # Its ordinal is kept, and it yields no event.
        assert await call(wire, "session/entries", IDS) == [(1, "n1"), (2, "n2"), (4, "n4")]
        await watch(wire, after={"seq": 1, "entry_id": "n1"})
        seqs = [(await wire.next_notification())["params"]["seq"] for _ in range(3)]
        assert seqs == [2, 4, 4]
        assert len((await wire.call("build_context", session_id=SESSION))["messages"]) == 3
        for method, params in (
            ("append", {"message": {"role": "user"}}),
            ("branch", {"entry_id": "n1"}),
            ("session/reset", {}),
            ("session/label", {"entry_id": "n1", "label": "x"}),
            ("compact", {"summary": "s"}),
        ):
            refusal = await wire.refusal(method, session_id=SESSION, **params)
            assert refusal.data == {
                "kind": "session_corrupt",
                "retryable": False,
                "line": 4,
                "repairable": True,
            }, method
    assert house.disk.content(path) == content


async def test_a_retry_of_what_is_stored_is_answered_even_when_the_session_is_read_only(
    house: House,
) -> None:
    house.put(GOOD + b"garbage\n" + line(b"n4", b'"n2"'))
    async with house.daemon() as daemon, daemon.connect() as wire:
        answer = await append(wire, "n4", "1.50")
        assert (answer["duplicate"], answer["seq"]) == (True, 4)


async def test_lines_that_end_as_on_windows_are_read_and_left_as_they_are(house: House) -> None:
    content = GOOD.replace(b"\n", b"\r\n")
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/entries", IDS) == [(1, "n1"), (2, "n2")]
        number = await wire.request("session/entries", session_id=SESSION)
        assert b"\\r" not in await wire.receive(), number
        assert (await append(wire, "n3"))["seq"] == 3
    assert house.disk.content(path).startswith(content)


async def test_blank_lines_keep_their_ordinals_and_hurt_nobody(house: House) -> None:
    house.put(GOOD + b"\n  \n" + line(b"n5", b'"n2"'))
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["problems"], info["read_only"]) == (5, 0, False)
        assert (await append(wire, "n6"))["seq"] == 6


async def test_a_line_of_20_mb_is_an_entry_like_any_other(house: House) -> None:
    house.put(GOOD + line(b"big", b'"n2"').replace(b"1.50", b"x" * 20_000_000))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["leaf_id"] == "big"
        await watch(wire, after={"seq": 2, "entry_id": "n2"})
        event = await wire.next_notification()
        assert len(event["params"]["entry"]["message"]["content"]) == 20_000_000


async def test_what_refers_to_nothing_is_reported_and_shown(house: House) -> None:
    leaf = b'{"type":"leaf","id":"l1","parent_id":"n2",%s,"target_id":"nowhere"}\n' % TIME
    house.put(GOOD + line(b"orphan", b'"nowhere"') + leaf)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        # The orphan is a root of its own; the leaf moves nothing, in no event either.
        assert (info["problems"], info["leaf_id"]) == (2, "orphan")
        await watch(wire, after={"seq": 3, "entry_id": "orphan"})
        event = await wire.next_notification()
        assert event["params"]["entry"]["id"] == "l1"
        assert "leaf_id" not in event["params"] or event["params"]["leaf_id"] == "orphan"


# -- epochs ----------------------------------------------------------------------------------

# What is in the file afterwards, and how a cursor of before does not fit it.
EPOCHS: dict[str, tuple[bytes, str | None]] = {
    "as it was": (GOOD, None),
    "longer": (GOOD + line(b"n3", b'"n2"'), None),
    "a copy": (GOOD, "epoch"),
    "a copy that went on": (GOOD + line(b"n3", b'"n2"'), "epoch"),
    "shorter": (HEADER + line(b"n1", b"null"), "ahead"),
    "another of the same length": (HEADER + line(b"n1", b"null") + line(b"x2", b'"n1"'), "epoch"),
}


@pytest.mark.parametrize("case", EPOCHS)
async def test_an_epoch_lasts_as_long_as_what_was_seen_under_it_is_still_there(
    house: House, case: str
) -> None:
    content, misfit = EPOCHS[case]
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        epoch = (await session_info(wire))["epoch"]
    if "copy" in case:
        # Another file, which somebody else may have a different end of.
        house.disk.put(path, content)
    else:
        fd = house.disk.open_update(path)
        house.disk.truncate(fd, 0)
        house.disk.pwrite(fd, content, 0)
        house.disk.close(fd)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert ((await session_info(wire))["epoch"] == epoch) is (misfit is None)
        answer = await watch(wire, after={"seq": 2, "epoch": epoch})
        assert answer.get("replaced") == misfit
