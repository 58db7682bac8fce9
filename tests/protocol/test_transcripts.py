"""Every transcript happens as it is written, in both framings, on both backends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import running_daemon
from sessiond.testing.transcripts import Line, Placeholders, parse, play, render

pytestmark = [pytest.mark.both_loops]

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def test_there_are_transcripts() -> None:
    assert TRANSCRIPTS


@pytest.mark.parametrize("framing", list(Framing), ids=lambda framing: framing.value)
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_it_happens_as_written(
    path: Path, framing: Framing, home: Path, placeholders: Placeholders, *, recording: bool
) -> None:
    text = path.read_text()
    async with running_daemon(home) as daemon:
        happened = await play(
            parse(text), daemon, framing, placeholders=placeholders, recording=recording
        )
    if recording and render(happened) != text:
        path.write_text(render(happened))
        return
    assert render(happened) == text, (
        "it happened otherwise; to take it over: UPDATE=1 make test ARGS='-n 0 tests/protocol'"
    )


def test_a_transcript_is_parsed_and_rendered_back() -> None:
    text = '# a remark\n> {"a":1}\nbob< {"text":"a,b \\"c,d\\"",\n    "b":2}\n\n'
    lines = parse(text)
    assert lines == [
        Line("", "", "# a remark"),
        Line(">", "", '{"a":1}'),
        Line("<", "bob", '{"text":"a,b \\"c,d\\"","b":2}'),
        Line("", "", ""),
    ]
    assert parse(render(lines)) == lines


def test_a_long_body_is_cut_between_its_members_only() -> None:
    body = '{"text":"' + "a," * 100 + '","b":"' + "c," * 100 + '"}'
    rows = render([Line("<", "", body)]).splitlines()
    assert len(rows) == 2
    assert parse("\n".join(rows)) == [Line("<", "", body)]


async def test_what_does_not_come_and_what_comes_too_much_is_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["sessiond.testing.wire"], "_PATIENCE_SECONDS", 0.05)
    missing = '> {"method":"server/ping"}\n< {"id":1}\n'
    surplus = '> {"id":1,"method":"shutdown"}\n'
    async with running_daemon(home) as daemon:
        assert "< nothing came" in render(await play(parse(missing), daemon, Framing.NDJSON))
        assert '"result":null' in render(await play(parse(surplus), daemon, Framing.NDJSON))
