"""Words of a command beside an answer: the note that the daemon's database is away, told once and only then."""

from __future__ import annotations

from typing import Any, cast

import click
import pytest

from sessiond.cli.connect.conversation import ask, ask_long
from sessiond_client import BlockingClient

SINCE = "2026-01-15T10:30:00.000Z"
SIGNED = b'{"_meta":{"stale_since":"%s"},"sessions":[]}' % SINCE.encode()


class Answering:
    """A client that has one answer to all calls."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def call_raw(self, method: str, **params: Any) -> bytes:
        """Return the answer."""
        del method, params
        return self.answer


@pytest.mark.parametrize(
    ("answer", "times"),
    [(SIGNED, 1), (b'{"sessions":[]}', 0), (b'{"_meta":{"other":1},"sessions":[]}', 0)],
)
def test_a_command_says_once_since_when_the_database_is_away(
    answer: bytes, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    client = cast("BlockingClient", Answering(answer))
    with click.Context(click.Command("list")):
        assert ask(client, "session/list") == answer
        assert ask_long(client, "session/search") == answer
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count(f"the database has not answered since {SINCE}") == times
