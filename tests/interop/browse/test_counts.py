"""Counts with their nouns, in the singular and in the plural."""

from __future__ import annotations

import pytest

from sessiond.browse.words import READABLE_CHARS, raw_json
from sessiond.visible import counted
from sessiond_client import Client
from tests.interop.browse.application import browsing, conversation
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1000, "1,000 entries")],
)
def test_a_count_has_its_noun(count: int, shown: str) -> None:
    assert counted(count, "entry") == shown
    assert counted(count, "hit") == shown.replace("entry", "hit").replace("entries", "hits")


def test_one_character_that_is_cut_off_is_told_in_the_singular() -> None:
    cut = raw_json(b'"' + b"x" * (READABLE_CHARS - 1) + b'"')
    assert cut.endswith("[1 more character; E exports the session]")


async def test_one_entry_is_told_in_the_singular(server: Daemon, client: Client) -> None:
    await conversation(client, ["Why is it late?"])
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ user: Why is it late?", "1 line")
        assert "1 lines" not in screen.text
        await screen.press("r")
        await screen.shows("0 of 1 chosen")
        await screen.press("a", "s", "enter")
        await screen.shows("Squash 1 entry into a new session")
