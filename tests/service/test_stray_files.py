"""Other files in the folders of a profile: none of them may hide the sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import running_daemon
from tests.kit.calls import create, say

BAD_NAME = "\udcff\udcfe.jsonl"
PI = '{"type":"session","version":3,"id":"somebodys","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/x"}\n'


def stray(folder: Path, kind: str) -> str:
    name = (
        BAD_NAME if kind.startswith("not UTF-8") else "2026-01-01T00-00-00-000000_session-b.jsonl"
    )
    path = folder / name
    match kind:
        case "a link in a circle" | "not UTF-8, a link in a circle":
            path.symlink_to(path)
        case "a link to nowhere":
            path.symlink_to(folder / "nowhere")
        case "a pipe" | "not UTF-8, a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "not UTF-8, a session" | "a session":
            path.write_text(PI)
        case other:
            raise AssertionError(other)
    return name


@pytest.mark.parametrize(
    "kind",
    [
        *("a link in a circle", "a link to nowhere", "a pipe", "a folder"),
        *("not UTF-8, a session", "not UTF-8, a pipe", "not UTF-8, a link in a circle"),
    ],
)
async def test_lists_and_searches_go_on_and_name_it(home: Path, kind: str) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        made = await create(wire, persist="immediate")
        await say(wire, "hello")
        folder = Path(made["session"]["path"]).parent
        name = stray(folder, kind)
        listed: Any = await wire.call("session/list")
        assert [session["id"] for session in listed["sessions"]] == ["session-a"]
        told = [one["path"] for one in listed["unreadable"]]
        shown = str(folder / name).encode(errors="surrogateescape").decode(errors="replace")
        # What a link to nowhere stands for is not there.
        assert told == ([] if kind == "a link to nowhere" else [shown])
        hits = (await wire.call("session/search", query="hello"))["hits"]
        assert [hit["session_id"] for hit in hits] == ["session-a"]
        await wire.call("catalog/forest", scope="all")
    # As it is found by a daemon that starts.
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        listed = await wire.call("session/list")
        assert [session["id"] for session in listed["sessions"]] == ["session-a"]


async def test_a_file_whose_name_is_not_utf8_is_refused_by_a_name_that_can_be_told(
    home: Path,
) -> None:
    (home / BAD_NAME).write_text(PI)
    link = home / "link.jsonl"
    link.symlink_to(home / BAD_NAME)
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/open", path=str(link))
        assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "EILSEQ")
        assert refused.data["path"] == str(home / "\ufffd\ufffd.jsonl")
        assert not refused.data["retryable"]


@pytest.mark.parametrize("kind", ["a link in a circle", "a folder"])
async def test_an_index_of_searches_that_is_no_file_is_told_by_its_name(
    home: Path, kind: str
) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        made = await create(wire, persist="immediate")
        await say(wire, "hello")
        folder = Path(made["session"]["path"]).parent
        index = folder.parent / "search.sqlite"
        stray(folder.parent, kind)
        (folder.parent / "2026-01-01T00-00-00-000000_session-b.jsonl").rename(index)
        if kind == "a link in a circle":
            index.unlink()
            index.symlink_to(index)
        refused = await wire.refusal("session/search", query="hello")
        assert (refused.data["kind"], refused.data["path"]) == ("storage_error", str(index))
        # Put away, it is made again.
        index.rename(folder.parent / "away")
        assert len((await wire.call("session/search", query="hello"))["hits"]) == 1
