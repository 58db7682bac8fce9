"""sharur's files with sessiond writing into them: a second reader sees what the daemon says.

After each change the reader of `tests/kit/readers`, which knows nothing of sessiond, loads the file
as sharur does. Leaf, context, name and settings must be what the daemon answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessiond.model.settings import CompactionSettings
from sessiond.service.policies import Policies
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call
from tests.kit.house import House, put_sample
from tests.kit.readers.sharur import Loaded, Unreadable, load
from tests.service.compacting import Command, serving
from tests.service.test_sharur_files import HEADER, SAMPLES, context, uid

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]

Json = Any
STAMP = "2026-05-01T09:00:00Z"


def user(text: str) -> Json:
    return {"role": "user", "content": text, "timestamp": STAMP}


class Shared:
    """One file of sharur's, with a daemon and the second reader at the same time."""

    def __init__(self, house: House, wire: Wire, path: Path, session: Json) -> None:
        self.house, self.wire, self.path = house, wire, path
        self.session = session
        self.before = house.disk.content(path)

    def content(self) -> bytes:
        data = self.house.disk.content(self.path)
        assert data.startswith(self.before), "what was there is never rewritten"
        self.before = data
        return data

    def last(self) -> Json:
        return json.loads(self.content().splitlines()[-1])

    def before_last(self) -> Json:
        return json.loads(self.content().splitlines()[-2])

    async def call(self, method: str, **params: Json) -> Json:
        """Change the session, and let both readers agree about the result."""
        answer = await self.wire.call(method, session_id=self.session["id"], **params)
        await self.agree()
        return answer

    async def refused(self, method: str, **params: Json) -> Refusal:
        before = self.content()
        with pytest.raises(Refusal) as refusal:
            await self.wire.call(method, session_id=self.session["id"], **params)
        assert self.content() == before
        return refusal.value

    async def agree(self) -> Loaded:
        theirs = load(self.content())
        await agrees(self.wire, self.session["id"], theirs)
        return theirs


async def agrees(wire: Wire, session_id: str, theirs: Loaded) -> None:
    ours = (await wire.call("session/get", session_id=session_id))["session"]
    built = await wire.call("build_context", session_id=session_id)
    assert (ours["leaf_id"] or theirs.session_id) == theirs.leaf
    said = [(one["role"], one["content"]) for one in built["messages"]]
    assert said == [(one["role"], one["content"]) for one in theirs.llm]
    assert (built["thinking_level"] or "off") == (theirs.thinking or "off")
    if theirs.model:
        assert built["model"] == {"provider": theirs.provider, "model_id": theirs.model}


async def shared(house: House, wire: Wire, name: str) -> Shared:
    path = put_sample(house, name)
    found = Shared(house, wire, path, await call(wire, "session/open", "session", path=str(path)))
    await found.agree()
    return found


@pytest.mark.parametrize("name", ["sharur", "sharur-branch"])
async def test_after_each_change_both_readers_agree(house: House, name: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, name)
        await it.call("append", message=user("and now this"))
        line = it.content().splitlines()[-1]
        # As sharur writes it: its order of members, a full UUID, a time without idle zeros.
        entry_id = "00000000-0000-0000-0000-000000000001"
        leaf = uid(20) if name == "sharur" else uid(90)
        assert line == (
            b'{"type":"message","id":"%s","parentId":"%s","timestamp":"2026-01-15T10:30:00Z",'
            b'"message":{"role":"user","content":"and now this","timestamp":"%s"}}'
            % (entry_id.encode(), leaf.encode(), STAMP.encode())
        )
        read = {"id": "call_9", "name": "read", "args": {"path": "a.go"}}
        answer = {"role": "assistant", "content": "", "thinking": "hm", "toolCalls": [read]}
        result = {"role": "tool", "content": "Error: gone", "toolCallId": "call_9"}
        said = [{"type": "message", "message": one} for one in (answer, result, user("go on"))]
        await it.call("append", entries=said)
        await it.call("session/branch", entry_id=uid(3))
        moved = it.last()
        assert (moved["type"], moved["customType"]) == ("custom", "sessiond.leaf")
        assert moved["parentId"] == uid(3)
        await it.call("append", message=user("another way"))
        await it.call("session/label", entry_id=uid(3), label="begin <here>")
        assert it.last()["label"] == "begin <here>"
        assert b'"begin \\u003chere\\u003e"' in it.content()
        await it.call("session/label", entry_id=uid(3), label=None)
        assert "label" not in it.last()
        await it.call("session/rewind", to=uid(3))
        await it.call(
            "append", entries=[{"type": "model_change", "model_id": "m", "provider": "p"}]
        )
        await it.call(
            "append", entries=[{"type": "thinking_level_change", "thinking_level": "low"}]
        )
        await it.call("session/update", title="A better name")
        assert (await it.agree()).name == "A better name"
        await it.call("session/reset")
        assert it.last()["parentId"] == load(it.content()).session_id
        await it.call("append", message=user("from the start"))
        assert [one["content"] for one in load(it.content()).llm] == ["from the start"]
        custom: Json = {"type": "custom_message", "custom_type": "x", "content": "aside"}
        await it.call("append", entries=[custom | {"display": False, "details": {"k": 1.50}}])
        stored = it.last()
        assert stored["message"]["content"] == "aside"
        await it.call("session/branch", entry_id=uid(3), summary="went another way")
        assert it.last()["type"] == "branch_summary"
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/open", "session", path=str(it.path))
        await agrees(wire, it.session["id"], load(house.disk.content(it.path)))


async def test_a_compaction_keeps_a_real_message(house: House) -> None:
    """D11, D23: the first kept id is one of a message that is no tool result."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur")
        summary = {"summary": "All <done>.", "tokens_before": 900}
        await it.call("session/compact", first_kept_entry_id=uid(9), **summary)
        stored = it.last()
        assert stored["firstKeptEntryId"] == uid(9)
        assert (stored["tokensBefore"], stored["tokensAfter"]) == (900, 10)
        assert b"All \\u003cdone\\u003e." in it.content()
        await it.call("append", message=user("next"))
        theirs = load(it.content())
        assert [one["role"] for one in theirs.llm[:3]] == ["success", "assistant", "user"]
        # Again, with the notice of the first compaction among the kept messages.
        await it.call("session/compact", first_kept_entry_id=uid(16), **summary)
        roles = [one["role"] for one in load(it.content()).llm]
        assert roles == ["success", "user", "compaction", "user", "compaction"]
        await it.call("append", message=user("last"))
        # Not a message; no entry at all; messages in place of a summary.
        for kept in (uid(10), uid(2), None):
            await it.call("append", message=user("more"))
            refusal = await it.refused("session/compact", first_kept_entry_id=kept, summary="s")
            assert refusal.data["kind"] == "entry_invalid"
            assert refusal.data["path"] == "first_kept_entry_id"
        plan = await wire.call(
            "session/plan_compaction", session_id=it.session["id"], keep_recent_tokens=1
        )
        kept = plan["plan"]["first_kept_entry_id"]
        assert [record["type"] for record in theirs.records if record["id"] == kept] in (
            [],
            ["message"],
        )
        once = {"idempotency_key": "k", "summary": "planned"}
        first = await it.call("session/compact", plan_id=plan["plan"]["plan_id"], **once)
        assert 0 < it.last()["tokensAfter"] < it.last()["tokensBefore"]
        await it.call("append", message=user("said since"))
        again = await it.call("session/compact", plan_id=plan["plan"]["plan_id"], **once)
        assert again["entry"] == first["entry"]


async def test_a_whole_compaction_lists_its_files_as_sharur_does(house: House) -> None:
    settings = CompactionSettings(keep_recent_tokens=1)
    house.environment = replace(house.environment, policies=Policies(settings))
    async with serving(house, Command("Done so far.")) as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur")
        await it.call("session/branch", entry_id=uid(15))
        await it.call("append", message=user("go on"))
        result = await it.call("session/compact")
        stored = it.last()
        # With the files that the earlier summary lists; what was read and written stands in both lists.
        lists = "\n\n### File Activity\n- Read: client.go, retry.go\n- Modified: client.go\n"
        assert stored["summary"] == "Done so far." + lists
        # sharur keeps 512 tokens, whatever less is asked.
        assert stored["firstKeptEntryId"] == uid(11)
        assert stored["tokensAfter"] > 0
        assert result["tokens_before"] == stored["tokensBefore"]


@pytest.mark.parametrize(
    ("kept", "seen"),
    [
        # A message that is not there, one off the path, one that is no message: everything.
        ("00000000-0000-4000-8000-00000000dead", 10),
        ("00000000-0000-4000-8000-000000000014", 10),
        ("00000000-0000-4000-8000-000000000002", 10),
        # Without a first kept entry the model sees the summary, whatever was said since.
        ("", 1),
    ],
)
async def test_what_another_program_compacted_is_read_as_sharur_reads_it(
    house: House, kept: str, seen: int
) -> None:
    path = put_sample(house, "sharur")
    place = {"id": uid(50), "parentId": uid(20), "timestamp": STAMP}
    compaction: Json = {"type": "compaction", **place, "summary": "s", "firstKeptEntryId": kept}
    compaction |= {"tokensBefore": 10, "tokensAfter": 20}
    after = {"type": "message", "id": uid(51), "parentId": uid(50), "message": user("after")}
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (compaction, after))
    house.disk.put(path, house.disk.content(path) + lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = Shared(house, wire, path, await call(wire, "session/open", "session", path=str(path)))
        await it.agree()
        assert len(await context(wire, it.session)) == seen
        assert it.session["problems"] == 1
        usage = await wire.call("session/usage", session_id=it.session["id"])
        built = await wire.call("build_context", session_id=it.session["id"])
        assert usage["tokens"] == built["tokens"]
        await it.call("append", message=user("and more"))
        assert len(await context(wire, it.session)) == (seen if seen == 1 else seen + 1)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "message.content"),
        ({"role": "assistant"}, "message.content"),
        ({"role": "toolResult", "content": "x"}, "message.role"),
        ({"role": "tool", "content": "x"}, "message.toolCallId"),
        ({"role": "user", "content": "x", "timestamp": 1767258001000}, "message.timestamp"),
        ({"role": "user", "content": "x", "images": [{"data": "x"}]}, "message.images"),
        (
            {
                "role": "assistant",
                "content": "",
                "toolCalls": [{"id": "a", "name": "b", "args": 1}],
            },
            "message.toolCalls",
        ),
        (
            {"role": "assistant", "content": "", "usage": {"totalTokens": 1.5}},
            "message.usage",
        ),
    ],
)
async def test_a_message_of_another_shape_is_refused(house: House, entry: Json, path: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur-branch")
        refusal = await it.refused("append", message=entry)
        assert (refusal.data["kind"], refusal.data["path"]) == ("entry_invalid", path)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"type": "leaf", "target_id": None}, "type"),
        ({"type": "session_info", "name": "x", "tags": ["a"]}, "tags"),
        ({"type": "zz", "summary": 7}, "summary"),
        ({"type": "zz", "tokensBefore": "x"}, "tokensBefore"),
        ({"type": "zz", "message": {"content": 7}}, "message"),
        ({"type": "custom_message", "custom_type": "x", "display": True, "content": []}, "content"),
        ({"type": "session", "id": "another-header"}, "type"),
        ({"type": "custom", "custom_type": "x", "id": "short"}, "id"),
    ],
)
async def test_an_entry_that_sharur_cannot_read_is_refused(
    house: House, entry: Json, path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur-branch")
        refusal = await it.refused("append", entries=[entry])
        assert (refusal.data["kind"], refusal.data["path"]) == (
            "entry_invalid",
            f"entries[0].{path}",
        )


async def test_no_line_is_longer_than_sharur_reads(house: House) -> None:
    """D5, the other way round: sessiond reads a longer line, and never writes one."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur-branch")
        line = {"type": "message", "id": uid(99), "parentId": uid(90), "timestamp": STAMP}
        bare = len(json.dumps(line | {"message": user("")}, separators=(",", ":")))
        # The time of the daemon's clock has the length of STAMP.
        most = user("x" * (64 * 1024 - 1 - bare))
        refusal = await it.refused("append", message=user(most["content"] + "x"))
        assert refusal.data["kind"] == "too_large"
        assert (refusal.data["limit"], refusal.data["size"]) == (65535, 65536)
        await it.call("append", message=most)
        assert len(it.content().splitlines()[-1]) == 65535
        with pytest.raises(Unreadable):
            load(it.content() + b"x" * 65536)


async def test_a_line_of_a_megabyte_loads_and_lists(house: House) -> None:
    """D5: sharur itself does not read such a file."""
    path = put_sample(house, "sharur-branch")
    line = {"type": "message", "id": uid(91), "parentId": uid(90), "timestamp": STAMP}
    line["message"] = user("y" * 2**20)
    house.disk.put(path, house.disk.content(path) + json.dumps(line).encode() + b"\n")
    with pytest.raises(Unreadable):
        load(house.disk.content(path))
    async with house.daemon() as daemon, daemon.connect() as wire:
        session = await call(wire, "session/open", "session", path=str(path))
        assert session["leaf_id"] == uid(91)
        assert len((await context(wire, session))[-1][2]) == 2**20
        await wire.call("append", session_id=session["id"], message=user("short"))
        listed = await wire.call("session/list")
        assert [one["id"] for one in listed["sessions"]] == [session["id"]]


async def test_copies_stay_sharurs(house: House) -> None:
    """D1 to D4: branch, fork, rebase and merge are on the disk, for sharur as for sessiond."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        it = await shared(house, wire, "sharur")
        source = it.session["id"]

        async def made(method: str, **params: Json) -> tuple[Json, Loaded]:
            answer = await wire.call(method, session_id=source, **params)
            session = answer["session"]
            theirs = load(house.disk.content(Path(session["path"])))
            assert session["dialect"] == "sharur"
            assert session["problems"] == 0
            await agrees(wire, session["id"], theirs)
            roots = [one for one in theirs.records[1:] if one["type"] != "session"]
            assert roots[0]["parentId"] == theirs.session_id == session["id"]
            return session, theirs

        # A branch at a message keeps the ids up to it, and names its parent.
        session, theirs = await made("session/fork", at=uid(5), cwd="/home/ana/other")
        assert theirs.parent_session == source
        assert session["cwd"] == "/home/ana/other"
        assert [one["id"] for one in theirs.records[1:]] == [uid(n) for n in range(1, 6)]
        session, theirs = await made("session/fork", entries="all")
        assert [one["id"] for one in theirs.records[1:]] == [uid(n) for n in range(1, 21)]
        assert session["title"] == "Fix the retry bug in client.go"
        # D3: a fork without a link has none, in the header or in any line.
        session, theirs = await made("session/fork", link="none", entries="all")
        assert theirs.parent_session == ""
        data = house.disk.content(Path(session["path"])).decode()
        assert source not in data
        assert HEADER not in data
        _, theirs = await made("session/fork", at=uid(15), entries="context")
        assert [one["content"] for one in theirs.llm[1:]][-1] == "Documented."
        _, theirs = await made("session/rebase", indices=[0, 3], link="none")
        assert len(theirs.llm) == 2
        _, theirs = await made("session/rebase", indices=[0, 1], squash={"summary": "Short."})
        said = [one["content"] for one in theirs.llm]
        assert said == [f"Summary of 2 messages from session {source[:8]}:", "Short."]
        assert len([one for one in theirs.records if one["type"] == "message"]) == 4
        other = await wire.call(
            "session/import", content=(SAMPLES / "sharur-branch.jsonl").read_text()
        )
        more = {"other_session_id": other["session"]["id"], "text": "Both."}
        _, theirs = await made("session/merge", into="new", **more)
        assert [one["role"] for one in theirs.llm] == ["user", "assistant"]
        await it.call("session/merge", **more)
        assert [one["content"] for one in load(it.content()).llm][-1] == "Both."


async def test_a_fork_of_an_older_file_is_one_of_today(house: House) -> None:
    for name in ("sharur-export", "sharur-legacy-kind"):
        path = put_sample(house, name)
        async with house.daemon() as daemon, daemon.connect() as wire:
            session = await call(wire, "session/open", "session", path=str(path))
            made = (await wire.call("session/fork", session_id=session["id"]))["session"]
            theirs = load(house.disk.content(Path(made["path"])))
            await agrees(wire, made["id"], theirs)
            assert len(theirs.llm) == 2


async def test_what_sharur_writes_meanwhile_is_taken_in(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        it = await shared(house, wire, "sharur-branch")
        await watcher.call("subscribe", session_id=it.session["id"])
        own = {"type": "message", "id": uid(91), "parentId": uid(90), "message": user("theirs")}
        house.disk.write_as_another(it.path, json.dumps(own).encode() + b"\n")
        answer = await it.call("append", message=user("ours"))
        assert answer["entries"][0]["parent_id"] == uid(91)
        told = (await watcher.next_notification())["params"]
        assert (told["entry"]["id"], told["origin"]) == (uid(91), {"external": True})
        # As sharur does when it could not load the session: a second trunk below the header.
        trunk = own | {"id": uid(92), "parentId": it.session["id"]}
        house.disk.write_as_another(it.path, json.dumps(trunk).encode() + b"\n")
        await it.call("append", message=user("on the second trunk"))
        texts = [one["content"] for one in load(it.content()).llm]
        assert texts == ["theirs", "on the second trunk"]
